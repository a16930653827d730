"""Write and read the record of what was injected, to apply it again without the tier.

It is an annotation of the Object, or of the workload's own metadata when it is bare; never
on the pod template, where writing it would roll the pods.
"""

import base64
import hashlib
import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from function import names
from function.contract.injection import Injection, Json
from function.contract.recorded import shaped
from function.problems import Refused
from function.reasons import Reason

VERSION = 1
# All annotations of an object together may take 256 KiB; a record this long is a mistake.
MAX_BYTES = 16 * 1024

WIRED, UNWIRED = "Wired", "Unwired"

# What all templates of a record may have of its texts: each has a copy.
_MOST_TEXT = 64 * MAX_BYTES


@dataclass(frozen=True)
class TemplateRecord:
    """One template's wiring.

    `container`: the serving container's name. `files_name`: the ConfigMap that holds
    `injection.files`, "" without files.
    """

    injection: Injection
    container: str = ""
    files_name: str = ""


def wired_tiers(templates: Mapping[str, TemplateRecord]) -> set[str | None]:
    """Return the remote names of the tiers that templates are wired to, None for one without."""
    return {kept.injection.labels.get(names.LABEL_WIRED) for kept in templates.values()}


@dataclass(frozen=True)
class Record:
    """What was injected into one workload, complete enough to be applied again.

    `state`: Wired, or Unwired (Optional's choice, bound to `template`). `tier`: "namespace/name" as
    the workload names it; `child`: the fleet's child that it was, "" where the name is the tier's
    own. `template`: a digest of the pod templates as their author wrote them; `applied`: of the
    wired ones as we wrote them. `engines`: {gang name: facts as {fact: value}}, with their sources
    and the cache identity. `templates`: {template path: TemplateRecord}.
    """

    state: str
    tier: str
    child: str = ""
    backend: str = ""
    policy: str = "Required"
    template: str = ""
    engines: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    templates: Mapping[str, TemplateRecord] = field(default_factory=dict)
    applied: str = ""

    @property
    def wired(self) -> bool:
        return self.state == WIRED

    @property
    def models(self) -> set[str]:
        """Return the models that its engines serve, "" for one that is not known."""
        return {facts.get("model", "") for facts in self.engines.values()}

    @property
    def sets_arguments(self) -> bool:
        """Return whether its engines start with arguments of ours."""
        return any(t.injection.connector or t.injection.flags for t in self.templates.values())

    @cached_property
    def wiring(self) -> str:
        """Return a digest of what was injected: equal for two records of one wiring."""
        return digest({path: kept.injection.to_json() for path, kept in self.templates.items()})[:8]

    @cached_property
    def text(self) -> str:
        """Return the record as compact canonical JSON. Raise PodConflict above 16 KiB."""
        optional: Json = {
            "child": self.child,
            "backend": self.backend,
            "policy": self.policy,
            "template": self.template,
            "applied": self.applied,
            "engines": {k: dict(v) for k, v in self.engines.items()},
            "templates": {k: _dump_template(v) for k, v in self.templates.items()},
        }
        data: Json = {"version": VERSION, "state": self.state, "tier": self.tier}
        data |= {key: value for key, value in optional.items() if value}
        text = _canonical(data)
        if len(text.encode()) > MAX_BYTES:
            _pack_texts(data)
            text = _canonical(data)
        size = len(text.encode())
        if size > MAX_BYTES:
            raise Refused(
                Reason.POD_CONFLICT,
                f"the record of this wiring would take {size} bytes, more than {MAX_BYTES}: the "
                "tier gives its pods too many or too long files; shorten them",
                f"metadata.annotations[{names.ANNOTATION_RECORD}]",
            )
        return text


def load(text: str | None) -> tuple[Record | None, str]:
    """Return the record and "", or None and why there is none; records can be forged."""
    if not text:
        return None, "there is no record"
    if len(text) > 4 * MAX_BYTES:
        return None, "the record is too long to be one of ours"
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        return None, "the record is not JSON"
    if not isinstance(data, dict) or type(data.get("version")) is not int:
        return None, "the record has no version"
    if data["version"] > VERSION:
        return None, (
            f"the record has version {data['version']}, and this function knows {VERSION}: a newer "
            "function wrote it"
        )
    try:
        found = _load(data)
        _ = found.text  # what is written again must fit, too
        return found, ""
    except Refused:
        return None, "the record is too long to be one of ours"
    except (KeyError, TypeError, ValueError, AttributeError) as e:
        return None, f"the record cannot be read: {type(e).__name__}: {e}"


def read(metadata: Mapping[str, Any] | None) -> tuple[Record | None, str]:
    """Read the record in the annotation of an object's metadata, as `load` does."""
    annotations = (metadata or {}).get("annotations") or {}
    return load(annotations.get(names.ANNOTATION_RECORD))


def digest(templates: Mapping[str, Any]) -> str:
    """Return a digest of pod templates ({path: body}); the order of keys does not count."""
    return hashlib.sha256(_canonical(templates).encode()).hexdigest()[:16]


def _canonical(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def _dump_template(t: TemplateRecord) -> Json:
    found = {"container": t.container, "files": t.files_name}
    return {"injection": t.injection.to_json()} | {key: name for key, name in found.items() if name}


def _pack_texts(data: Json) -> None:
    """Move the texts of files to `packed`, compressed; their templates keep the names, with "".

    Only a record that is too long otherwise: the others keep their bytes.
    """
    files = [t["injection"].get("files", {}) for t in data.get("templates", {}).values()]
    # Of two texts of one name the longer one.
    texts = dict(sorted((pair for each in files for pair in each.items()), key=lambda p: len(p[1])))
    packed = _canonical(texts).encode()
    if len(packed) <= 4 * MAX_BYTES:
        data["packed"] = base64.b85encode(zlib.compress(packed)).decode()
        for each in files:
            each.update((name, "") for name, text in texts.items() if each.get(name) == text)


def _unpack_texts(packed: str) -> Json:
    """Invert `_pack_texts`. Raise ValueError for what no record holds."""
    try:
        text = zlib.decompressobj().decompress(base64.b85decode(packed), 4 * MAX_BYTES)
        return dict(json.loads(text))
    except (zlib.error, RecursionError) as error:
        raise ValueError("its texts cannot be read") from error


def _load(data: Json) -> Record:
    if data["state"] not in (WIRED, UNWIRED):
        raise ValueError(f"unknown state {data['state']!r}")
    # Earlier builds wrote `texts`, not compressed.
    texts = _unpack_texts(data["packed"]) if "packed" in data else data.get("texts", {})
    if len(data.get("templates", ())) * sum(len(_text(t)) for t in texts.values()) > _MOST_TEXT:
        raise ValueError("its texts are too long")
    return Record(
        state=data["state"],
        tier=_text(data["tier"]),
        child=_text(data.get("child", "")),
        backend=_text(data.get("backend", "")),
        policy=_text(data.get("policy", "")),
        template=_text(data.get("template", "")),
        applied=_text(data.get("applied", "")),
        engines={
            _text(k): {_text(a): _text(b) for a, b in v.items()}
            for k, v in data.get("engines", {}).items()
        },
        templates={
            _text(k): _load_template(v, texts) for k, v in data.get("templates", {}).items()
        },
    )


def _load_template(data: Json, texts: Json) -> TemplateRecord:
    injection = shaped(data["injection"])
    files = {name: text or _text(texts.get(name, "")) for name, text in injection.files.items()}
    return TemplateRecord(
        injection=replace(injection, files=files),
        container=_text(data.get("container", "")),
        files_name=_text(data.get("files", "")),
    )


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is not text")
    return value
