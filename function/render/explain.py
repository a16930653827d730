"""What a workload would get from a tier: the wiring of `function.pods`, asked by a person."""

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from rich.text import Text
from rich.tree import Tree

from function import command, workloads
from function.api.consumer import KVOffloadTierRef
from function.api.input import Input
from function.backends.registry import BACKENDS
from function.composers import tier_plan
from function.composers.tier_plan import TierPlan
from function.contract.backend import AnyTier
from function.edge.structs import encode
from function.kube import objects
from function.names import POLICY, TIER
from function.pods import wire
from function.pods.asking import find
from function.pods.record import Record
from function.pods.refs import Ref
from function.problems import Refused
from function.reasons import REASONS, Policy, Reason
from function.render import emit, tree
from function.render.files import InputError

Document = dict[str, Any]

# The ConfigMap's name is made of the composite's, which is not known here.
_FILES_NAME = "CONSUMER-kv-offload"

# What the command itself can be told, by reason.
_HERE = {
    Reason.ENGINE_UNKNOWN: "--engine vLLM, or --engine SGLang",
    Reason.VERSION_MISMATCH: "--engine vLLM --engine-version 0.33.0, or what the image has",
}


@dataclass(frozen=True)
class Explained:
    """`before`, `after`: the workload; `after` is None when it was refused, and `refused` says why.

    `changes`: {template path: the lines of the container's command, args and $KV_OFFLOAD_ARGS that
    wiring takes away ("- ...") and adds ("+ ...")}. `notes`: what a person should know besides.
    """

    before: Document
    after: Document | None = None
    wired: wire.Wired | None = None
    refused: Refused | None = None
    changes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def diff(self) -> str:
        """What wiring changes, as a unified diff of the canonical YAML."""
        texts = [emit.to_yaml([document]) for document in (self.before, self.after or self.before)]
        old, new = (text.splitlines(keepends=True) for text in texts)
        return "".join(difflib.unified_diff(old, new, "as written", "wired"))


def explain(workload: Document, tier: Document, step_input: Input, tier_file: str) -> Explained:
    """Wire a Pod, a workload or an Object with one to a tier. Raises InputError for a bad tier."""
    planned = _plan(tier, tier_file)
    named = Ref(planned.tier.namespace, planned.tier.name)
    manifest = objects.unwrapped(workload) or workload
    held = _held(manifest)
    ref = KVOffloadTierRef(name=named.name, namespace=named.namespace)
    asked = find("explained", held, ref, step_input, "")
    if asked is None:
        asked = find("explained", _naming(held, planned.tier), None, step_input, "")
    if asked is None:
        raise InputError(f"{manifest.get('kind')} is no workload that is known to hold pods")
    if asked.refused is not None:
        return Explained(manifest, refused=asked.refused)
    try:
        wired = wire.wire(asked, planned.tier, planned.backend, _FILES_NAME)
    except Refused as refused:
        return Explained(manifest, refused=refused)
    notes = []
    if asked.ref != named:
        notes.append(f"the pods name tier {asked.ref}; shown is what the given tier would do")
    if asked.policy is Policy.OFF:
        notes.append(f"the pods say {POLICY}: Off: nothing of this happens until that is removed")
    after = wired.manifest["spec"]["template"] if held is not manifest else wired.manifest
    changes = _changes(held, wired)
    return Explained(manifest, after, wired, changes=changes, notes=tuple(notes))


def _plan(document: Document, file: str) -> TierPlan:
    if document.get("kind") != "KVOffloadTier":
        raise InputError(f"{file}: kind is {document.get('kind')}, expected KVOffloadTier")
    metadata, spec = document.get("metadata") or {}, document.get("spec") or {}
    namespace, name = metadata.get("namespace") or "", metadata.get("name") or ""
    if not namespace or not name:
        raise InputError(f"{file}: metadata.name and metadata.namespace are needed")
    planned = tier_plan.plan(namespace, name, spec, encode(spec), BACKENDS)
    if isinstance(planned, tier_plan.Refusal):
        lines = "\n".join(f"  {problem}" for problem in planned.problems)
        raise InputError(f"{file}: the tier is not valid:\n{lines}")
    if planned.is_fleet:
        raise InputError(
            f"{file}: spec.clusterSelector: pods are wired to the tier of their own cluster: give"
            " one with spec.inferenceClusterRef"
        )
    return planned


def _held(manifest: Document) -> Document:
    """A bare Pod as the template of a Deployment, which is what wiring knows."""
    if (manifest.get("apiVersion"), manifest.get("kind")) != ("v1", "Pod"):
        return manifest
    metadata = manifest.get("metadata") or {}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": metadata.get("name", ""), "namespace": metadata.get("namespace", "")},
        "spec": {"template": manifest},
    }


def _changes(before: Document, wired: wire.Wired) -> dict[str, tuple[str, ...]]:
    old, new = (_lines(document, wired.record) for document in (before, wired.manifest))
    return {path: _differing(old.get(path, []), lines) for path, lines in new.items()}


def _lines(manifest: Document, written: Record) -> dict[str, list[str]]:
    """{template path: what its serving container starts with, in lines}"""
    by_path: dict[str, list[str]] = {}
    workload = workloads.find(manifest)
    for template in workload.templates if workload else ():
        kept = written.templates.get(template.path)
        for container in (template.body.get("spec") or {}).get("containers") or ():
            if kept is not None and container.get("name", "") == kept.container:
                by_path[template.path] = _start(container)
    return by_path


def _start(container: Document) -> list[str]:
    words = [*(container.get("command") or ()), *(container.get("args") or ())]
    lines = [line for word in words for line in str(word).splitlines() or [""]]
    asked = [e for e in container.get("env") or () if e.get("name") == command.OPT_IN]
    return lines + [f"${command.OPT_IN}: {e.get('value', '')}" for e in asked]


def _differing(old: list[str], new: list[str]) -> tuple[str, ...]:
    lines = list(difflib.unified_diff(old, new, n=0, lineterm=""))[2:]
    return tuple(f"{line[0]} {line[1:]}" for line in lines if not line.startswith("@@"))


def _naming(manifest: Document, tier: AnyTier) -> Document:
    """The workload with every pod template naming the tier, as its author would write it."""
    workload = workloads.find(manifest)
    for template in workload.templates if workload else ():
        metadata = template.body.get("metadata") or {}
        annotations = (metadata.get("annotations") or {}) | {TIER: f"{tier.namespace}/{tier.name}"}
        body = {**template.body, "metadata": {**metadata, "annotations": annotations}}
        manifest = workloads.replace(manifest, template, body)
    return manifest


def as_tree(explained: Explained) -> Tree:
    """For people: who is wired with what, or why not and what to do."""
    metadata: Mapping[str, Any] = explained.before.get("metadata") or {}
    title = f"{explained.before.get('kind')} {metadata.get('name', '')}"
    if explained.refused is not None:
        return _refusal(title, explained.refused)
    root = Tree(Text.assemble((title, "bold"), "  ", ("✔ can be wired", "green")))
    if explained.wired is not None:
        root.add(Text(explained.wired.summary))
        for path, template in sorted(explained.wired.record.templates.items()):
            name = "the pod" if explained.before.get("kind") == "Pod" else f"pods at {path}"
            pods = root.add(Text.assemble((name, "bold"), f", container {template.container}"))
            for what, how in tree.gets(template.injection):
                pods.add(Text.assemble((what, "cyan"), f": {how}"))
            _add_start(pods, explained.changes.get(path))
    for note in explained.notes:
        root.add(Text.assemble(("note: ", "yellow"), note))
    return root


def _add_start(pods: Tree, lines: tuple[str, ...] | None) -> None:
    """What changes in how the container starts."""
    if lines is None:
        return
    if not lines:
        why = ": unchanged; no engine starts here, or it is wired like this already"
        pods.add(Text.assemble(("command and args", "cyan"), why))
        return
    start = pods.add(Text.assemble(("command and args", "cyan"), ":"))
    for line in lines:
        start.add(Text(line, style="green" if line.startswith("+") else "red"))


def _refusal(title: str, refused: Refused) -> Tree:
    root = Tree(Text.assemble((title, "bold"), "  ", ("✘ is not wired", "red")))
    root.add(Text.assemble((refused.reason, "red"), f": {refused}"))
    known, here = REASONS.get(refused.reason), _HERE.get(refused.reason)
    if known is not None:
        root.add(Text.assemble(("what it means: ", "cyan"), known.meaning))
        root.add(Text.assemble(("what to do: ", "cyan"), known.fix))
    if here is not None:
        root.add(Text.assemble(("to try it here: ", "cyan"), here))
    return root
