"""Cache identity: what must be equal for two engines to share cached blocks.

No backend's key holds all of it (LMCache's: chunk hash, the model *string*, rank, object group,
salt; vLLM's Mooncake key: the basename of the model path), and `/mnt/models` is everybody's model
string. So it is computed here, from what determines a block's bytes and its key.
"""

import posixpath
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from function import names
from function.command.model import Word, shown, values_wanted
from function.contract import models
from function.contract.engine import UNKNOWN_VERSION
from function.contract.image_reference import ImageReference
from function.engines.registry import kind
from function.kube import access, naming
from function.kube.access import Json
from function.pods import mounted
from function.pods.patch.env import literals

LENGTH = 12

# Set, nothing is downloaded: a repository is then what the cache directory holds of it.
_OFFLINE = ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE")
_FALSE = frozenset({"", "0", "false", "no", "off"})
# Where downloads are kept: the flag, then the first of these that is set, with what lies below it.
_DOWNLOADS = "--download-dir"
# KServe's webhook brings what it names to a directory that no volume of the template shows.
_STORAGE = "STORAGE_URI"
_KSERVE_MODELS = "/mnt/models"
_CLAIM = "pvc://"
_OF_A_CLUSTER = ("pvc ", "hostPath ")
_CACHES = (("HF_HUB_CACHE", ""), ("HUGGINGFACE_HUB_CACHE", ""), ("HF_HOME", "hub"))


@dataclass(frozen=True)
class Identity:
    """`model`: the string behind the model argument. `digest`: 12 hex digits over `facts`.

    `facts`: sorted (name, value) pairs. `known`: false where something that matters cannot be seen;
    then equal digests prove nothing, `unknown` says what it is, and `advice` what to do.
    """

    model: str
    digest: str
    facts: tuple[tuple[str, str], ...]
    known: bool = True
    unknown: str = ""
    advice: str = ""


@dataclass(frozen=True)
class _Item:
    """One thing that cannot be seen.

    `name`: of the flag or variable to write out, "" for none. `is_source`: whether a name for the
    weights helps.
    """

    text: str
    name: str = ""
    is_source: bool = False


@dataclass(frozen=True)
class Surroundings:
    """What decides blocks outside the engine's own template.

    `namespace`: of the pods; claims and ConfigMaps are of one.
    `cluster`: set where the store may serve other clusters, on which names mean other things.
    `store`: `Description.store`. `outlives_pods`: the cache survives a roll-out, so the version
    counts. `model_source`: where the workload says the weights come from (KServe's
    `spec.model.uri`). `tenant`: the part of the tier that it is kept to: blocks of two tenants
    never meet. `layouts`: that the pod's own connectors ask for, and the tier's does not.
    `assumed`: what wiring makes of flags that are absent (`Backend.assumes`). `quarantine`: how
    often the model's blocks were left behind, "" for never.
    """

    namespace: str = ""
    cluster: str = ""
    store: str = ""
    outlives_pods: bool = False
    model_source: str = ""
    tenant: str = ""
    layouts: frozenset[str] = frozenset()
    assumed: Mapping[str, str] = field(default_factory=dict)
    quarantine: str = ""


def identity(
    template: Mapping[str, Any],
    container: Mapping[str, Any],
    *,
    engine: str,
    flags: Mapping[str, str | None],
    version: str | None = None,
    declared: str = "",
    hidden: Iterable[str] = (),
    unread: Callable[[], Mapping[str, Word]] = dict,
    around: Surroundings,
) -> Identity:
    """Return the identity of one engine, from its template as earlier steps desire it.

    `flags`: the effective flags (`EngineKind.read`). `declared`: the user's name for the weights,
    with its namespace where others may mean other ones. It stands for where they come from, and for
    nothing else. `hidden`: words that may hold any flag. `unread`: the words of these, and of flags
    whose values are not known, by flag.
    """
    model, inputs = model_string(engine, flags), kind(engine).identity[0]
    env, unseen = literals(container), _hidden_sources(container, around.namespace)
    facts_by_name = {
        "engine": engine,
        "envFrom": ", ".join(unseen),
        "layout": " ".join(sorted(around.layouts)),
        "quarantine": around.quarantine,
        "store": around.store,
        "tenant": around.tenant,
    }
    unknown = [_Item(f"the flags in {text}", text) for text in hidden]
    if declared:
        facts_by_name["declared"] = declared
    else:
        _add_source(facts_by_name, unknown, template, container, flags, env, model, around)
        if facts_by_name.get("model", "").startswith("repository "):
            _add(facts_by_name, unknown, env, inputs.sources, "env ")
    facts_by_name["revision"] = flags.get("--revision") or ""
    if flags.get("--revision", "") is None:
        unknown.append(_Item("--revision", "--revision"))
    defaults = {**inputs.flags, **around.assumed}
    _add(facts_by_name, unknown, flags, defaults, switches=inputs.switches)
    for switch, more in inputs.with_switch.items():
        _add(facts_by_name, unknown, flags, more if switch in flags else {})
    follows = models.rope_follows_length(model)
    if follows is not False:
        seen = {name: "at run time" if value is None else value for name, value in flags.items()}
        _add(facts_by_name, unknown, flags if follows else seen, dict.fromkeys(inputs.length, ""))
    _add(facts_by_name, unknown, env, inputs.env, "env ")
    if around.outlives_pods:
        _add_version(facts_by_name, unknown, container, version)
    if unseen or any(value.startswith(_OF_A_CLUSTER) for value in facts_by_name.values()):
        facts_by_name["cluster"] = around.cluster
    facts = tuple(sorted((k, v) for k, v in facts_by_name.items() if v))
    digest = naming.digest(*(f"{name}={value}" for name, value in facts), length=LENGTH)
    known = Identity(model, digest, facts)
    return _unknown(known, unknown, unread()) if unknown else known


def _unknown(found: Identity, items: Sequence[_Item], unread: Mapping[str, Word]) -> Identity:
    """Return the identity as one that is not known, with what to do about it."""
    texts, words, written = [], [], False
    for item in items:
        word = unread.get(item.name)
        quoted = word is not None and word.text not in item.text
        texts.append(item.text + (f" ({shown(word.text)})" if word and quoted else ""))
        if word is not None and (word.unset or word.fixes):
            words.append(word)
        else:
            written |= bool(item.name)
    said = values_wanted(words)
    ways = [f"{said[0].upper()}{said[1:]}, or write it out in args."] if said else []
    if written:
        ways.append("Write them out in args, or a variable's value in env.")
    if any(item.is_source for item in items):
        begin = "Or, for the weights alone," if ways else "Name the weights:"
        ways.append(f"{begin} annotate {names.ANNOTATION_CACHE_IDENTITY}: NAME.")
    advice = "".join(f" {way}" for way in ways)
    return replace(found, known=False, unknown=", ".join(texts), advice=advice)


def _add_source(
    facts: dict[str, str],
    unknown: list[_Item],
    template: Mapping[str, Any],
    container: Mapping[str, Any],
    flags: Mapping[str, str | None],
    env: Mapping[str, str | None],
    model: str,
    around: Surroundings,
) -> None:
    """Add where the weights come from."""
    if not model:
        flag = kind(facts["engine"]).model_flag
        unknown.append(_Item("the model argument", flag, is_source=True))
        return
    path, name = _local(container, model), "model"
    if not path:
        facts["model"] = f"repository {model}"
        _add(facts, unknown, flags, {_DOWNLOADS: ""})
        path, name = _downloads(flags, env) if _is_offline(env) else "", "downloads"
    if path:
        storage = env.get(_STORAGE, "") if _is_downloaded(path) else ""
        if storage is None:
            unknown.append(_Item(f"env {_STORAGE}", f"env {_STORAGE}"))
        source = around.model_source or storage or ""
        facts[name], why = _behind_path(template, container, path, around.namespace, source)
        what = "" if name != "model" else f" (the model argument is {model})"
        if why:
            unknown.append(_Item(f"{why}{what}", is_source=True))


def _hidden_sources(container: Mapping[str, Any], namespace: str) -> list[str]:
    """Return the sources of `envFrom` by name: what they hold is unknown."""
    hidden: list[str] = []
    for source in access.objects(container, "envFrom"):
        name, prefix = access.text(source, "configMapRef", "name"), access.text(source, "prefix")
        what = f"configMap {namespace}/{name}"
        secret = f"secret {namespace}/{access.text(source, 'secretRef', 'name')}"
        hidden.append(f"{what if name else secret} {prefix}".rstrip())
    return hidden


def model_string(engine: str, flags: Mapping[str, str | None]) -> str:
    """Return the string behind the model argument; "" if it is missing or not static."""
    return flags.get(kind(engine).model_flag) or ""


def _add(
    facts: dict[str, str],
    unknown: list[_Item],
    values: Mapping[str, str | None],
    defaults: Mapping[str, str],
    prefix: str = "",
    switches: Collection[str] = (),
) -> None:
    """Add what differs from its default; None is a value that is not static, or a switch."""
    for name, default in defaults.items():
        if name not in values:
            continue
        value = "on" if values[name] is None and name in switches else values[name]
        if value is None:
            unknown.append(_Item(f"{prefix}{name}", f"{prefix}{name}"))
        elif value != default:
            facts[name] = value


def _add_version(
    facts: dict[str, str], unknown: list[_Item], container: Mapping[str, Any], version: str | None
) -> None:
    if version:
        facts["version"] = version
        return
    image = str(container.get("image") or "")
    facts["image"] = image
    if not _is_pinned(image):
        annotation = names.ANNOTATION_ENGINE_VERSION
        unknown.append(_Item(f"{UNKNOWN_VERSION} (annotate {annotation})"))


def _is_pinned(image: str) -> bool:
    reference = ImageReference.parse(image)
    return bool(reference.digest) or reference.tag not in ("", "latest", "nightly", "main")


def _local(container: Mapping[str, Any], model: str) -> str:
    """Return the model argument as a path; "" for the name of a repository.

    Engines take `org/name` for a directory where one stands below the working directory: it does
    where a volume is mounted there.
    """
    if posixpath.isabs(model):
        return model
    below = container.get("workingDir")
    if not below:
        return model if model.startswith(".") else ""
    path = posixpath.normpath(posixpath.join(str(below), model))
    return path if model.startswith(".") or mounted.mount_above(container, path) else ""


def _is_offline(env: Mapping[str, str | None]) -> bool:
    """Whether nothing is downloaded; a value that cannot be seen may say so."""
    set_ = [env[name] for name in _OFFLINE if name in env]
    return any(value is None or value.lower() not in _FALSE for value in set_)


def _downloads(flags: Mapping[str, str | None], env: Mapping[str, str | None]) -> str:
    """Return the directory that holds downloads, as far as the pod says."""
    if _DOWNLOADS in flags:
        return flags[_DOWNLOADS] or _DOWNLOADS
    for name, below in _CACHES:
        if name in env:
            return posixpath.join(env[name] or f"${name}", below)
    return posixpath.join("~", ".cache/huggingface/hub")


def _behind_path(
    template: Mapping[str, Any],
    container: Mapping[str, Any],
    path: str,
    namespace: str,
    model_source: str,
) -> tuple[str, str]:
    """Return the source behind a path as one string, and what of it is unknown."""
    if not posixpath.isabs(path):
        return f"path {path}", f"what is at the relative path {path}"
    mount = mounted.mount_above(container, path)
    if mount is None:
        if model_source and _is_downloaded(path):
            below = posixpath.relpath(posixpath.normpath(path), _KSERVE_MODELS)
            return _named(model_source, "" if below == "." else below, namespace), ""
        image = str(container.get("image") or "")
        why = "" if _is_pinned(image) else f"what the image {image or 'without a name'} holds"
        return f"image {image} {posixpath.normpath(path)}", why
    volumes = (template.get("spec") or {}).get("volumes") or ()
    volume: Json = next((v for v in volumes if v.get("name") == mount.get("name")), {})
    if mount.get("subPathExpr"):
        return f"volume {volume.get('name', '')}", f"the subPathExpr of {mount['mountPath']}"
    return _behind_volume(volume, mounted.inside(mount, path), namespace, model_source)


def _is_downloaded(path: str) -> bool:
    """Return whether KServe puts what a service names as its source at the path."""
    return f"{posixpath.normpath(path)}/".startswith(f"{_KSERVE_MODELS}/")


def _named(source: str, inside: str, namespace: str) -> str:
    """Return the fact of a source that the workload itself names."""
    if source.startswith(_CLAIM):
        claim = posixpath.join(source.removeprefix(_CLAIM), inside)
        return f"pvc {namespace}/{posixpath.normpath(claim)}"
    return f"source {source} {inside}".rstrip()


def _behind_volume(
    volume: Mapping[str, Any], inside: str, namespace: str, model_source: str
) -> tuple[str, str]:
    claim = volume.get("persistentVolumeClaim")
    if claim:
        return f"pvc {namespace}/{claim.get('claimName', '')}/{inside}", ""
    host_path = volume.get("hostPath")
    if host_path:
        return f"hostPath {posixpath.join(str(host_path.get('path', '')), inside)}", ""
    image = volume.get("image")
    if image:
        reference = str(image.get("reference", ""))
        why = "" if _is_pinned(reference) else f"what the image {reference} holds"
        return f"image {reference} {inside}", why
    nfs = volume.get("nfs")
    if nfs:
        return f"nfs {nfs.get('server', '')}:{posixpath.join(str(nfs.get('path', '')), inside)}", ""
    if model_source:
        # What an init container or a CSI driver brings in, as the workload itself names it.
        return _named(model_source, inside, namespace), ""
    kind = next((k for k in volume if k != "name"), "a volume that the pod does not define")
    return f"{kind} {inside}", f"what the volume {volume.get('name', '')!r} ({kind}) holds"
