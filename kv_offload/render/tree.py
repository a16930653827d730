"""Print a render as a tree for people.

It answers in this order: is it ready and why not; what is composed where, per cluster; what each
consumer's pods get. Colour only on a terminal; piped output is 100 columns wide, so that it can be
kept and compared.
"""

import io
import sys
from collections import defaultdict
from collections.abc import Mapping
from typing import Any, TextIO

from rich.console import Console
from rich.text import Text
from rich.tree import Tree

from function.api.base import normalise
from function.composers.conditions import REASON_STARTING
from function.composers.fleet_rollout import stamped
from function.composers.waves import State
from function.contract.injection import Injection
from function.kube.objects import is_object
from function.pods import record
from kv_offload.render.conditions import read
from kv_offload.render.derive import KEY_ANNOTATION
from kv_offload.render.effects import differing
from kv_offload.render.reconcile import Rendered

Document = dict[str, Any]

_PIPED_WIDTH = 100
_MARKS = {"True": ("✔", "green"), "False": ("✘", "red")}
_UNKNOWN = ("?", "yellow")
# Conditions of Crossplane's own that say nothing while they are well.
_QUIET = frozenset({("Responsive", "True"), ("Synced", "True")})
_HERE = "control plane"
# A resource's state: will be made, is there and ready, is there and not ready.
_NEW, _READY, _WAITING = ("+", "cyan"), ("✔", "green"), ("…", "yellow")


def show(xr: Document, rendered: Rendered) -> None:
    """Print the tree of a render; `xr` is the composite as it was given."""
    write(build(xr, rendered), sys.stdout)


def write(tree: Tree, file: TextIO) -> None:
    """Print a tree: coloured on a terminal, `plain` elsewhere."""
    if file.isatty():
        Console(file=file, highlight=False).print(tree)
    else:
        file.write(plain(tree))


def plain(tree: Tree) -> str:
    """Return the tree without colour, 100 columns wide, without trailing spaces."""
    text = io.StringIO()
    console = Console(file=text, width=_PIPED_WIDTH, highlight=False, color_system=None)
    console.print(tree)
    return "".join(line.rstrip() + "\n" for line in text.getvalue().splitlines())


def build(xr: Document, rendered: Rendered) -> Tree:
    """Return the whole tree, for `show` and for tests."""
    conditions = {c["type"]: c for c in read(rendered.xr)}
    root = Tree(_title(xr, conditions, rendered))
    _conditions(root, conditions)
    _status(root, rendered.xr.get("status") or {})
    by_cluster: dict[str, list[Document]] = defaultdict(list)
    for document in rendered.composed:
        by_cluster[_cluster(document)].append(document)
    for cluster in sorted(by_cluster, key=lambda name: (name == _HERE, name)):
        branch = root.add(Text(cluster, style="bold"))
        for document in by_cluster[cluster]:
            _resource(branch, document, rendered, xr)
    if rendered.deleted:
        branch = root.add(Text("removed", style="bold red"))
        for document in rendered.deleted:
            branch.add(Text(f"{document['kind']} {document['metadata']['name']}"))
    if rendered.fatal:
        root.add(Text("fatal: nothing is changed, what runs is kept", style="bold red"))
    return root


def _title(xr: Document, conditions: Mapping[str, Document], rendered: Rendered) -> Text:
    metadata = xr.get("metadata") or {}
    place = f"{metadata['namespace']}/" if metadata.get("namespace") else ""
    text = Text.assemble((xr.get("kind", ""), "bold"), f" {place}{metadata.get('name', '')}  ")
    ready = conditions.get("Ready")
    mark, style = _MARKS.get(ready["status"], _UNKNOWN) if ready else _UNKNOWN
    word = "Ready" if ready and ready["status"] == "True" else "not ready"
    failed = (c for kind, c in conditions.items() if kind != "Ready" and c["status"] == "False")
    if rendered.composed and not rendered.existing and all(map(_is_starting, failed)):
        (mark, style), word = _NEW, "nothing runs yet: observed state is empty"
    return text.append(f"{mark} {word}", style=style)


def _is_starting(condition: Document) -> bool:
    starts = condition["reason"] in (REASON_STARTING, State.PROGRESSING)
    return bool(condition["status"] == "False" and starts)


def _mark(condition: Document) -> tuple[str, str]:
    if _is_starting(condition):
        return _WAITING
    return _MARKS.get(condition["status"], _UNKNOWN)


def _conditions(root: Tree, conditions: Mapping[str, Document]) -> None:
    for kind, condition in conditions.items():
        if (kind, condition["status"]) in _QUIET or kind == "Ready":
            continue
        mark, style = _mark(condition)
        text = Text.assemble((f"{mark} {kind}", style), f"  {condition['reason']}")
        if condition.get("message"):
            text.append(f": {condition['message']}")
        root.add(text)


def _status(root: Tree, status: Document) -> None:
    """Add the composite's own status fields, one a line; empty ones are left out."""
    for name, value in sorted(status.items()):
        if name != "conditions" and _brief(value) not in ("", "none"):
            root.add(Text.assemble((name, "cyan"), f": {_brief(value)}"))


def _brief(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{key}={_brief(item)}" for key, item in sorted(value.items())) or "none"
    if isinstance(value, list):
        return "; ".join(_brief(item) for item in value) or "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value)


def _cluster(document: Document) -> str:
    if not is_object(document):
        return _HERE
    name = ((document.get("spec") or {}).get("providerConfigRef") or {}).get("name", "")
    return f"cluster {name}"


def _resource(branch: Tree, document: Document, rendered: Rendered, xr: Document) -> None:
    annotations = document["metadata"].get("annotations") or {}
    key = annotations.get(KEY_ANNOTATION, "")
    inner = document["spec"]["forProvider"]["manifest"] if is_object(document) else document
    metadata = inner.get("metadata") or {}
    place = f"{metadata['namespace']}/" if metadata.get("namespace") else ""
    name = metadata.get("name") or document["metadata"].get("name", "")
    state = _READY if rendered.ready.get(key) else _WAITING
    mark, style = state if key in rendered.existing else _NEW
    text = Text.assemble((mark, style), " ", (inner.get("kind", ""), "bold"), f" {place}{name}")
    node = branch.add(text.append(f"  [{key}]", style="dim"))
    for container in _containers(inner):
        node.add(Text.assemble((container.get("name", ""), "cyan"), f": {_container(container)}"))
    if inner.get("kind") == xr.get("kind") == "KVOffloadTier":
        for difference in differing(
            stamped(xr.get("spec") or {}), stamped(normalise(inner["spec"]))
        ):
            node.add(Text.assemble(("differs", "yellow"), f": {difference}"))
    written, _ = record.read(document["metadata"])
    if written is not None:
        add_wiring(node, written)


def _containers(manifest: Document) -> list[Document]:
    template = (manifest.get("spec") or {}).get("template") or {}
    return list((template.get("spec") or {}).get("containers") or ())


def _container(container: Document) -> str:
    asked = (container.get("resources") or {}).get("requests") or {}
    parts = [str(container.get("image")), *(f"{k} {v}" for k, v in sorted(asked.items()))]
    return ", ".join(parts)


def add_wiring(node: Tree, written: record.Record) -> None:
    """Add to a workload what its record says: the tier, the engines, what their pods get."""
    style = "green" if written.state == record.WIRED else "yellow"
    line = Text.assemble((written.state.lower(), style), f" to tier {written.tier}")
    if written.state != record.WIRED:
        line = Text.assemble(
            (written.state.lower(), style), f", by its policy; tier {written.tier}"
        )
    wired = node.add(line.append(f" ({written.backend})" if written.backend else ""))
    for engine, facts in sorted(written.engines.items()):
        told = ", ".join(f"{name}={value}" for name, value in sorted(facts.items()) if value)
        wired.add(Text.assemble((f"engine {engine}".strip(), "cyan"), f": {told}"))
    for path, template in sorted(written.templates.items()):
        pods = wired.add(Text.assemble((f"pods at {path}", "cyan")))
        for name, text in gets(template.injection):
            pods.add(Text.assemble((name, "cyan"), f": {text}"))


def gets(injection: Injection) -> list[tuple[str, str]]:
    """Return what a pod gets as (what, how) rows; rows without content are left out."""
    connector = injection.connector or {}
    flags = [f"{k} {v}" if v is not None else k for k, v in sorted(injection.flags.items())]
    names = {
        "env": [_env(e) for e in (*injection.env, *injection.env_if_absent)],
        "volumes": [v["name"] for v in injection.volumes],
        "mounts": [f"{m['name']} at {m['mountPath']}" for m in injection.mounts],
        "files": [f"{injection.files_path}/{name}" for name in sorted(injection.files)],
        "labels": [f"{k}={v}" for k, v in sorted(injection.labels.items())],
        "nodes": [f"{k}={v}" for k, v in sorted(injection.node_selector.items())],
        "devices": [f"{k}={v}" for k, v in sorted(injection.resources.items())],
        "claims": [claim["name"] for claim in injection.claims],
    }
    rows = [("connector", str(connector["kv_connector"]))] if connector else []
    rows += [("flags", ", ".join(flags))] if flags else []
    rows += [(what, ", ".join(items)) for what, items in names.items() if items]
    if injection.shm is not None:
        rows.append(("/dev/shm", "the node's own" if injection.shm.host else "in memory"))
    return rows


def _env(variable: Mapping[str, Any]) -> str:
    value = variable.get("value")
    return variable["name"] if value is None else f"{variable['name']}={value}"
