"""Explain what a workload would get from a tier, by the wiring of `function.pods`."""

import difflib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from rich.text import Text
from rich.tree import Tree

from function import command, workloads
from function.api.consumer import KVOffloadTierRef
from function.api.engines import ENGINES
from function.api.input import Input
from function.backends.registry import BACKENDS
from function.composers import auto
from function.composers.admission import admits
from function.contract.backend import AnyTier
from function.kube import access, objects
from function.names import (
    ANNOTATION_ENGINE_VERSION,
    ANNOTATION_POLICY,
    ANNOTATION_TIER,
    LABEL_AUTO,
)
from function.pods import wire
from function.pods.offload_request import (
    NO_SIBLINGS,
    OffloadRequest,
    find,
    ignored_annotations_in,
    paths,
)
from function.pods.record import Record
from function.pods.refs import Ref
from function.pods.siblings import SiblingResources
from function.pods.templates import FILES_VOLUME
from function.problems import Refused
from function.reasons import Policy, Reason
from function.workloads import kinds
from kv_offload.docs.reasons import REASONS
from kv_offload.docs.variants import variants
from kv_offload.render import emit, memory, tree
from kv_offload.render.files import InputError
from kv_offload.render.memory import MemoryChange
from kv_offload.render.tiers import MissingTier, key_of, plan_of, planned_as, top_tiers

Document = dict[str, Any]

# The ConfigMap's name is made of the composite's, which is not known here.
_FILES_NAME = "CONSUMER-kv-offload"


_PAYLOAD = {"payload": {"repository": "any", "tag": "any"}}


@dataclass(frozen=True)
class Explained:
    """The answer for one workload.

    `before`, `after`: the workload; `after` is None when it was refused, and `refused` says why.
    `tier`: namespace/name. `asks`: its pods name a tier; else they fit, and nothing wires them yet.
    `changes`: {template path: the lines of the container's command, args and $KV_OFFLOAD_ARGS that
    wiring takes away ("- ...") and adds ("+ ...")}. `blockers`: why it stays unwired although the
    tier would take it. `notes`: what else to know. `alternatives`: settings of tiers that would
    take a refused workload. `hints`: what to type.
    """

    before: Document
    after: Document | None = None
    wired: wire.Wired | None = None
    refused: Refused | None = None
    tier: str = ""
    asks: bool = True
    changes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    blockers: tuple[Refused, ...] = ()
    notes: tuple[str, ...] = ()
    alternatives: tuple[str, ...] = ()
    hints: tuple[str, ...] = ()

    @property
    def fits(self) -> bool:
        return self.refused is None and not self.blockers

    @property
    def is_wired(self) -> bool:
        return self.fits and self.asks

    @property
    def title(self) -> str:
        metadata = self.before.get("metadata") or {}
        return f"{self.before.get('kind')} {metadata.get('name', '')}"

    @property
    def memory(self) -> list[MemoryChange]:
        """Return what wiring changes in the memory of its pods."""
        return memory.changes(self.before, self.after or self.before)

    def diff(self) -> str:
        """Return what wiring changes, as a unified diff of the canonical YAML."""
        texts = [emit.to_yaml([document]) for document in (self.before, self.after or self.before)]
        old, new = (text.splitlines(keepends=True) for text in texts)
        return "".join(difflib.unified_diff(old, new, "as written", "wired"))


def explain(
    workload: Document,
    tier: Document | Refused,
    step_input: Input,
    tier_file: str,
    namespace: str | None = None,
    siblings: SiblingResources = NO_SIBLINGS,
    given: Sequence[Document] = (),
) -> Explained:
    """Wire a Pod, a workload or an Object with one to a tier. Raise InputError for a bad tier.

    `tier`: a refusal where the workload's annotations tell of none.
    `namespace`: of the consumer, if known: the tier must admit it. `siblings`: what its pods may
    refer to, as far as known. `given`: the tiers that the tier may need.
    """
    manifest = objects.unwrap(workload) or workload
    if isinstance(tier, Refused):
        return Explained(manifest, refused=tier, asks=False)
    planned, notes = plan_of(tier, tier_file, given)
    named = Ref(planned.tier.namespace, planned.tier.name)
    deployment = _as_deployment(manifest)
    ref = KVOffloadTierRef(name=named.name, namespace=named.namespace)
    own = find("explained", deployment, None, step_input, "", siblings)
    asks = own is not None and own.ref is not None
    ignored = ignored_annotations_in("explained", workload, step_input, own)
    answer = Explained(manifest, tier=str(named), asks=asks)
    request = find("explained", deployment, ref, step_input, "", siblings)
    if request is None:
        named_here = _name_tier(deployment, planned.tier, step_input)
        request = find("explained", named_here, None, step_input, "", siblings)
    misplaced = tuple(Refused(Reason.REQUEST_IGNORED, str(each)) for each in ignored)
    if request is None:
        refused = misplaced[0] if misplaced else _without_pods(manifest)
        return replace(answer, refused=refused)
    if request.refused is not None:
        hints = _hints(request.refused, request)
        return replace(answer, refused=request.refused, hints=hints)
    namespace = _consumer_namespace(workload, namespace)
    blockers = tuple(_blockers(request, named, tier, namespace))
    blockers += () if asks else misplaced
    if request.ref is not None and auto.is_auto(request.ref):
        request = replace(request, ref=named)  # the one that is chosen
    try:
        name = _files_name(request)
        wired = wire.wire(request, planned.tier, planned.backend, name, namespace or "")
    except Refused as refused:
        if blockers:  # the function says these first
            note = f"without that it is refused: {refused.reason}: {refused}"
            return replace(answer, blockers=blockers, notes=(note,))
        others = tuple(alternatives(deployment, step_input, siblings))
        hints = _hints(refused, request)
        return replace(answer, refused=refused, hints=hints, alternatives=others)
    if asks:
        notes += [str(each) for each in ignored]
    if namespace is None and not admits(tier, ""):
        notes.append("spec.allowedNamespaces was not checked; pass the consumer's --namespace")
    after = wired.manifest["spec"]["template"] if deployment is not manifest else wired.manifest
    changes = _changes(deployment, wired)
    if not asks and not blockers:
        notes.append(
            f'nothing asks for it yet: add {ANNOTATION_TIER}: "{named}" to the pod template'
        )
    return replace(
        answer, after=after, wired=wired, changes=changes, blockers=blockers, notes=tuple(notes)
    )


def _hints(refused: Refused, request: OffloadRequest) -> tuple[str, ...]:
    """Return what to type for a refusal, from what is known about this workload's engines."""
    if refused.reason is Reason.ENGINE_UNKNOWN:
        return (REASONS[refused.reason].fix, " or ".join(f"--engine {name}" for name in ENGINES))
    if refused.reason is not Reason.VERSION_MISMATCH:
        return ()
    if ANNOTATION_ENGINE_VERSION not in str(refused):  # of a package: no option declares it
        return ()
    unversioned = dict.fromkeys(
        each.engine.name for each in request.engines if each.engine and not each.engine.version
    )
    return tuple(f"--engine {name} --engine-version VERSION" for name in unversioned)


def alternatives(
    workload: Document, step_input: Input, siblings: SiblingResources = NO_SIBLINGS
) -> Iterator[str]:
    """Yield the settings of tiers that would take a workload; sizes aside."""
    for backend in (BACKENDS[name] for name in BACKENDS.specs):
        for variant in variants(backend):
            spec = {"inferenceClusterRef": {"name": "any"}, **variant.spec}
            if _takes(workload, spec, variant.says, step_input, siblings):
                yield variant.says
            elif _takes(workload, {**spec, **_PAYLOAD}, variant.says, step_input, siblings):
                yield f"{variant.says}, payload"


def _takes(
    workload: Document,
    spec: Document,
    says: str,
    step_input: Input,
    siblings: SiblingResources,
) -> bool:
    """Return whether a tier would take a workload; False for one that is not valid."""
    try:
        planned = planned_as("any", "any", spec, says)
    except InputError:
        return False
    try:
        named = _name_tier(workload, planned.tier, step_input)
        request = find("explained", named, None, step_input, "", siblings)
        if request is None or request.refused is not None:
            return False
        wire.wire(request, planned.tier, planned.backend, _files_name(request))
    except Refused:
        return False
    return True


def _blockers(
    request: OffloadRequest, named: Ref, tier: Document, namespace: str | None
) -> Iterator[Refused]:
    if request.ref is not None and auto.is_auto(request.ref):
        if not _may_be_chosen(request.ref, tier):
            text = (
                f"{request.ref} means a tier in {request.ref.namespace} with the label"
                f' {LABEL_AUTO}: "true", and {named} of --tier is none'
            )
            yield Refused(Reason.TIER_NOT_FOUND, text)
    elif request.ref != named:
        text = f"the pods name KVOffloadTier {request.ref}, not {named} of --tier"
        yield Refused(Reason.TIER_NOT_FOUND, text)
    if request.policy is Policy.OFF:
        text = f"the pods have {ANNOTATION_POLICY}: Off; remove it to wire them"
        yield Refused(Reason.TURNED_OFF, text)
    if shut_out := _shut_out(tier, namespace):
        yield shut_out


def _shut_out(tier: Document, namespace: str | None) -> Refused | None:
    """Return the refusal of a consumer's namespace, None where the tier admits it."""
    if namespace is None or admits(tier, namespace):
        return None
    text = f"the tier's spec.allowedNamespaces does not admit namespace {namespace!r}"
    return Refused(Reason.NAMESPACE_NOT_ALLOWED, text)


def _consumer_namespace(workload: Document, namespace: str | None) -> str | None:
    """Return the consumer's namespace: as given, else an Object's own; None if not known."""
    if namespace is None and objects.is_object(workload):
        return access.text(workload, "metadata", "namespace") or None
    return namespace


def _may_be_chosen(ref: Ref, tier: Document) -> bool:
    """Return whether `auto` of a namespace may mean a tier."""
    return auto.is_labelled(tier) and key_of(tier)[0] == ref.namespace


def requesting(
    documents: Sequence[Document], step_input: Input, siblings: SiblingResources = NO_SIBLINGS
) -> list[Document]:
    """Return the workloads that have an annotation of ours, or all where none has."""
    return [each for each in documents if any(_asked(each, step_input, siblings))] or [*documents]


def _asked(
    workload: Document, step_input: Input, siblings: SiblingResources
) -> tuple[OffloadRequest | None, Refused | None]:
    """Return the request of a workload's pods, and what is wrong with its annotations."""
    deployment = _as_deployment(objects.unwrap(workload) or workload)
    request = find("explained", deployment, None, step_input, "", siblings)
    if request is not None and request.refused is not None:
        return request, request.refused
    ignored = ignored_annotations_in("explained", workload, step_input, request)
    text = " ".join(map(str, ignored))
    return request, Refused(Reason.REQUEST_IGNORED, text) if ignored else None


def chosen(
    workload: Document,
    tiers: Sequence[Document],
    step_input: Input,
    tier_file: str,
    siblings: SiblingResources = NO_SIBLINGS,
    namespace: str | None = None,
) -> Document | Refused:
    """Return the tier that the pods name, else the only one that no other needs.

    `auto` means the first labelled one that takes the pods, else the first. Where several are left,
    return what is wrong with the annotations, or raise InputError.
    """
    request, wrong = _asked(workload, step_input, siblings)
    ref = request.ref if request is not None else None
    named = [tier for tier in tiers if ref and key_of(tier) == (ref.namespace, ref.name)]
    if ref and auto.is_auto(ref):
        labelled = sorted((t for t in tiers if _may_be_chosen(ref, t)), key=key_of)
        taking = (
            tier
            for tier in labelled
            if summary(workload, tier, step_input, tier_file, siblings, tiers, namespace).fits
        )
        named = [first] if (first := next(taking, None)) else labelled[:1]
    if len(found := named or top_tiers(tiers)) == 1:
        return found[0]
    if wrong is not None and ref is None and tiers:
        return wrong
    says = f"the pods name {ref or 'none'}"
    raise InputError(
        f"{tier_file}: {len(tiers)} documents, expected one tier, or the one that the pods name "
        f"({says}); --all-tiers judges each"
    )


@dataclass(frozen=True)
class Summary:
    """Whether a tier would take a workload; `text` says with what, or what is missing."""

    fits: bool
    tier: str
    text: str

    def __str__(self) -> str:
        return f"{'✔' if self.fits else '✘'} {self.tier}  {self.text}"


def summary(
    workload: Document,
    tier: Document,
    step_input: Input,
    tier_file: str,
    siblings: SiblingResources = NO_SIBLINGS,
    given: Sequence[Document] = (),
    namespace: str | None = None,
) -> Summary:
    """Return whether a tier would take a workload, for one line; `namespace` as in `explain`."""
    metadata = tier.get("metadata") or {}
    name = f"{metadata.get('namespace', '')}/{metadata.get('name', '')}"
    try:
        # Which tier it names is no matter here: every one is tried.
        planned, _ = plan_of(tier, tier_file, given)
        manifest = objects.unwrap(workload) or workload
        named = _name_tier(_as_deployment(manifest), planned.tier, step_input)
        request = find("explained", named, None, step_input, "", siblings)
        if request is None:
            raise _without_pods(manifest)
        if request.refused is not None:
            raise request.refused
        if shut_out := _shut_out(tier, _consumer_namespace(workload, namespace)):
            raise shut_out
        wired = wire.wire(request, planned.tier, planned.backend, _files_name(request))
    except Refused as refused:
        return Summary(False, name, f"{refused.reason}: {refused}")
    except MissingTier as missing:
        return Summary(False, name, str(missing))
    return Summary(True, name, wired.summary)


def workloads_in(documents: list[Document], file: str) -> list[Document]:
    """Return the documents that hold pods; a single document is returned as it is."""
    if len(documents) == 1:
        return documents
    found = [d for d in documents if _is_workload(objects.unwrap(d) or d)]
    if not found:
        raise InputError(f"{file}: none of its {len(documents)} documents is a known workload")
    return found


def siblings_in(documents: list[Document]) -> SiblingResources:
    """Return what a workload may refer to among several documents, clusters aside."""
    return SiblingResources.among(objects.unwrap(d) or d for d in documents)


def _is_workload(manifest: Document) -> bool:
    deployment = _as_deployment(manifest)
    return kinds.is_known(deployment.get("apiVersion"), deployment.get("kind"))


def _files_name(request: OffloadRequest) -> str:
    """Return the name of the ConfigMap that wired pods mount, else one that stands for it."""
    bodies = (template.body for template in request.workload.templates)
    volumes = (each for body in bodies for each in access.objects(body, "spec", "volumes"))
    found = (access.text(v, "configMap", "name") for v in volumes if v.get("name") == FILES_VOLUME)
    return next(filter(None, found), _FILES_NAME)


def _without_pods(manifest: Document) -> Refused:
    """Return the refusal of a kind whose pods others make. Raise InputError for any other."""
    if instead := kinds.elsewhere(manifest):
        return Refused(Reason.REQUEST_IGNORED, instead)
    kind, version = manifest.get("kind"), manifest.get("apiVersion")
    raise InputError(
        f"{kind} is not a known kind of workload, or {version} has no pod template where one is "
        "known (docs/wire-a-team.md). If it holds one, name its path under `paths` in --input"
    )


def _as_deployment(manifest: Document) -> Document:
    """Wrap a bare Pod into a Deployment, which wiring knows; return others unchanged."""
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
    old, new = (_start_lines(document, wired.record) for document in (before, wired.manifest))
    return {path: _differing(old.get(path, []), lines) for path, lines in new.items()}


def _start_lines(manifest: Document, written: Record) -> dict[str, list[str]]:
    """Return what each serving container starts with: template path -> lines."""
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
    opted_in = [e for e in container.get("env") or () if e.get("name") == command.OPT_IN]
    return lines + [f"${command.OPT_IN}: {e.get('value', '')}" for e in opted_in]


def _differing(old: list[str], new: list[str]) -> tuple[str, ...]:
    lines = list(difflib.unified_diff(old, new, n=0, lineterm=""))[2:]
    return tuple(f"{line[0]} {line[1:]}" for line in lines if not line.startswith("@@"))


def _name_tier(manifest: Document, tier: AnyTier, step_input: Input) -> Document:
    """Return the workload with every pod template naming the tier, as its author would."""
    workload = workloads.find(manifest, paths("explained", manifest, step_input))
    for template in workload.templates if workload else ():
        metadata = template.body.get("metadata") or {}
        annotations = (metadata.get("annotations") or {}) | {
            ANNOTATION_TIER: f"{tier.namespace}/{tier.name}"
        }
        body = {**template.body, "metadata": {**metadata, "annotations": annotations}}
        manifest = workloads.replace(manifest, template, body)
    return manifest


def as_tree(explained: Explained) -> Tree:
    """Return a tree for people: what is wired with what, or why not and what to do."""
    title = explained.title
    if explained.refused is not None:
        return _refusal(explained, explained.refused)
    fits = "✔ will be wired" if explained.asks else "✔ can be wired"
    word = (fits, "green") if explained.fits else ("✘ is not wired", "red")
    root = Tree(Text.assemble((title, "bold"), "  ", word))
    for why in explained.blockers:
        root.add(Text.assemble((why.reason, "red"), f": {why}"))
    if explained.wired is not None:
        root.add(Text(("" if explained.fits else "Else: ") + explained.wired.summary))
        for path, template in sorted(explained.wired.record.templates.items()):
            name = "the pod" if explained.before.get("kind") == "Pod" else f"pods at {path}"
            pods = root.add(Text.assemble((name, "bold"), f", container {template.container}"))
            for what, how in tree.gets(template.injection):
                pods.add(Text.assemble((what, "cyan"), f": {how}"))
            _add_start(pods, explained.changes.get(path))
        for change in explained.memory:
            root.add(Text.assemble(("memory", "cyan"), f": {change}"))
    for note in explained.notes:
        root.add(Text.assemble(("note: ", "yellow"), note))
    return root


def verdict(explained: Explained) -> Document:
    """Return the answer for programs. `reason`: of the closed list, "Wired" or "NotRequested"."""
    why = explained.refused or next(iter(explained.blockers), None)
    reason = str(why.reason) if why else "Wired" if explained.asks else "NotRequested"
    summary = explained.wired.summary if explained.wired and why is None else ""
    metadata = access.mapping(explained.before, "metadata")
    return {
        "workload": {
            "apiVersion": explained.before.get("apiVersion", ""),
            "kind": explained.before.get("kind", ""),
            "namespace": metadata.get("namespace", ""),
            "name": metadata.get("name", ""),
        },
        "tier": explained.tier,
        "wired": explained.is_wired,
        "fits": explained.fits,
        "reason": reason,
        "message": str(why) if why else summary,
        "fix": REASONS[why.reason].fix if why else "",
        "hints": list(explained.hints),
        "notes": list(explained.notes),
        "takers": list(explained.alternatives),
        "memory": [asdict(change) for change in explained.memory],
    }


def _add_start(pods: Tree, lines: tuple[str, ...] | None) -> None:
    """Add what changes in how the container starts."""
    if lines is None:
        return
    if not lines:
        why = ": unchanged (no engine starts here, or it is wired already)"
        pods.add(Text.assemble(("command and args", "cyan"), why))
        return
    start = pods.add(Text.assemble(("command and args", "cyan"), ":"))
    for line in lines:
        start.add(Text(line, style="green" if line.startswith("+") else "red"))


def _refusal(explained: Explained, refused: Refused) -> Tree:
    root = Tree(Text.assemble((explained.title, "bold"), "  ", ("✘ is not wired", "red")))
    root.add(Text.assemble((refused.reason, "red"), f": {refused}"))
    for hint in explained.hints:
        root.add(Text.assemble(("try: ", "cyan"), hint))
    if explained.alternatives:
        others = "; ".join(explained.alternatives)
        root.add(Text.assemble(("tiers that would take it: ", "cyan"), others))
    return root
