"""Check from `kubectl get -o yaml` that our step runs, last, and will keep running.

Core keeps a condition after the step that wrote it has left the pipeline (an edit of a packaged
Composition is undone, another Composition was picked): `KVOffloadReady=True` stays. Core does not
say when a condition was last written, and a time in ours would write every composite without end.
The revision that a composite names proves that the step ran: the condition counts only if our step
is in that revision's pipeline.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from function import names
from function.backends.registry import BACKENDS
from function.composers import tier_conflicts
from function.composers.conditions import TIER_CONDITIONS
from function.contract.image_reference import ImageReference
from function.kube import access
from kv_offload.render import packaged
from kv_offload.render.defaults import FUNCTION

Document = dict[str, Any]

CONDITION = "KVOffloadReady"
_OBJECTS = "kubernetes.m.crossplane.io"


@dataclass(frozen=True, order=True)
class Finding:
    """One finding. `is_problem`: something is wrong now or will be; else it is a note."""

    is_problem: bool
    subject: str
    message: str


@dataclass
class Report:
    """All findings.

    `healthy`: how many composites run with our step at the end. `examined`: how many composites
    have our step or condition, and Compositions our step.
    """

    findings: list[Finding] = field(default_factory=list)
    healthy: int = 0
    examined: int = 0


def examine(documents: Iterable[Document], function: str = "") -> Report:
    """Examine the documents and return what they show; Lists are opened.

    `function`: the name of our Function, "" for the one whose package is ours.
    """
    return _Examination(documents, function).report()


class _Examination:
    def __init__(self, documents: Iterable[Document], function: str) -> None:
        self.by_kind: dict[str, list[Document]] = defaultdict(list)
        self.composites: list[Document] = []
        for document in _opened(documents):
            self.by_kind[str(document.get("kind"))].append(document)
            if _reference(document, "compositionRef") or _condition(document):
                self.composites.append(document)
        self.function = function or self._installed()
        self.revisions = {_name(d): d for d in self.by_kind["CompositionRevision"]}
        self.compositions = {_name(d): d for d in self.by_kind["Composition"]}
        self.healthy = 0

    def report(self) -> Report:
        found = [
            *self.of_composites(),
            *self.of_compositions(),
            *self.of_kinds(),
            *self.of_functions(),
            *self.of_webhooks(),
            *self.of_clusters(),
        ]
        ours = [c for c in self.composites if _condition(c)]
        examined = self.healthy + len(ours) + len(list(filter(None, self.stepped().values())))
        ordered = sorted(set(found), key=lambda f: (not f.is_problem, f))
        return Report(ordered, self.healthy, examined + len(ordered))

    def _installed(self) -> str:
        """Return the name of the Function of our package: Crossplane names it by its path."""
        found = {
            _name(each)
            for each in self.by_kind["Function"]
            if ImageReference.parse(access.text(each, "spec", "package")).name == FUNCTION
        }
        return found.pop() if len(found) == 1 else FUNCTION

    # Composites ------------------------------------------------------------------------------

    def of_composites(self) -> Iterator[Finding]:
        stepped = set(self.stepped())
        for document in self.composites:
            name = _reference(document, "compositionRevisionRef")
            revision = self.revisions.get(name)
            condition = _condition(document)
            if revision is None:
                if condition or _kind_of(document) in stepped:
                    yield _problem(document, self._unknown(name))
            elif self.has_step(revision):
                self.healthy += 1
                yield from self._not_true(document)
            elif condition:
                yield _problem(document, self._stale(condition, name))
            elif _kind_of(document) in stepped:
                other = _reference(document, "compositionRef")
                message = (
                    f"uses Composition {other}, which has no step of {self.function}: its pods are"
                    " not wired, and no condition says so. Use a Composition with the step."
                )
                yield _problem(document, message)
            elif _names_a_tier(document.get("spec")) and not self._has_composites(document):
                other = _reference(document, "compositionRef")
                message = (
                    f"names a tier, and its Composition {other} has no step of {self.function}: "
                    "its pods are not wired. Add the step: kubectl get composition "
                    f"{other} -o yaml > f.yaml; kv-offload add-step f.yaml | kubectl apply -f -"
                )
                # What composes nothing yet may leave pods, and the step, to composites of its own.
                yield (_problem if _composed(document) else _note)(document, message)

    def _has_composites(self, document: Document) -> bool:
        """Return whether a composite composes others, which hand the name of a tier on."""
        kinds = {_kind_of(each) for each in self.composites}
        return any(_kind_of(each) in kinds for each in _composed(document))

    def _unknown(self, revision: str) -> str:
        return (
            f"its CompositionRevision {revision or '(none yet)'} is not among the documents. Add"
            " compositionrevisions to the kubectl get."
        )

    def _not_true(self, document: Document) -> Iterator[Finding]:
        """Yield what a composite with our step lacks: a reconcile, or our conditions as True."""
        synced = access.condition(document, "Synced")
        if synced.get("status") == "False":
            message = f"Crossplane cannot reconcile it: {synced.get('message', '')}"
            yield _problem(document, message)
        ours = TIER_CONDITIONS if document.get("kind") == "KVOffloadTier" else (CONDITION,)
        said = [access.condition(document, name) for name in ours]
        for each in said:
            if each and each.get("status") != "True":
                state = f"{each.get('status')} ({each.get('reason')})"
                yield _note(document, f"{each['type']} is {state}: {each.get('message', '')}")
        if not any(said) and document.get("kind") != "InferenceCluster":
            message = f"has none of our conditions: {self.function} has not answered for it yet."
            yield _note(document, message)

    def _stale(self, condition: Mapping[str, Any], revision: str) -> str:
        return (
            f"{CONDITION}={condition.get('status')} ({condition.get('reason')}) is stale: its"
            f" CompositionRevision {revision} has no step of {self.function}, so its pods are not"
            " wired. Use a Composition with the step."
        )

    # Compositions ----------------------------------------------------------------------------

    def has_step(self, composition: Mapping[str, Any]) -> bool:
        return self.function in _functions(composition)

    def stepped(self) -> dict[str, list[str]]:
        """Return the Compositions that have our step: composite kind -> names."""
        found: dict[str, list[str]] = defaultdict(list)
        for name, document in sorted(self.compositions.items()):
            if self.has_step(document):
                found[_composes(document)].append(name)
        return found

    def of_compositions(self) -> Iterator[Finding]:
        for document in self.compositions.values():
            if not self.has_step(document):
                continue
            used = _functions(document)
            if (times := used.count(self.function)) > 1:
                yield _problem(
                    document,
                    f"has our step {times} times. What one step wires, the other takes for an edit"
                    " of the pods: each edit of a tier rolls all engines at once. Keep the last.",
                )
            behind = [name for name in used[used.index(self.function) :] if name != self.function]
            if behind:
                yield _note(
                    document,
                    f"steps run after ours ({', '.join(behind)}): pods that they add or change are"
                    " not wired. Only function-auto-ready belongs there.",
                )
            if packaged.is_packaged(document) and used[0] != self.function:
                yield _note(
                    document,
                    "belongs to a package. Crossplane undoes an edit at its next start; a package"
                    " built with the step keeps it.",
                )
            yield from self._copy(document)

    def _copy(self, document: Document) -> Iterator[Finding]:
        source = access.texts(document, "metadata", "annotations").get(names.ANNOTATION_COPY_OF)
        name, _, digest = (source or "").rpartition("@")
        if not source:
            return
        original = self.compositions.get(name)
        if original is None:
            yield _note(document, f"is a copy of Composition {name}, which is not given.")
        elif packaged.digest(original) != digest:
            yield _problem(
                document,
                f"is a copy of an older Composition {name}. Renew it: kubectl get composition"
                f" {name} -o yaml > f.yaml; kv-offload add-step f.yaml | kubectl apply -f -",
            )

    # Which Composition a new composite gets ----------------------------------------------------

    def of_kinds(self) -> Iterator[Finding]:
        for kind, stepped in self.stepped().items():
            all_names = sorted(n for n, d in self.compositions.items() if _composes(d) == kind)
            definition = self._definition(kind)
            defaulted = _default(definition or {})
            own = defaulted in self.compositions and not packaged.is_packaged(
                self.compositions[defaulted]
            )
            if own and packaged.is_packaged(definition or {}):
                yield _problem(
                    definition or {},
                    "belongs to a package: Crossplane removes its default Composition at its next"
                    " start. Use the admission policy of kv-offload add-step, or a package built"
                    " with the step.",
                )
            elif len(all_names) > 1 and not defaulted and not any(map(self._selected, stepped)):
                yield Finding(
                    True,
                    kind,
                    f"has several Compositions ({', '.join(all_names)}) and no default: Crossplane"
                    " picks one at random. Apply the admission policy of kv-offload add-step.",
                )

    def _definition(self, kind: str) -> Document | None:
        for document in self.by_kind["CompositeResourceDefinition"]:
            group = access.text(document, "spec", "group")
            if f"{access.text(document, 'spec', 'names', 'kind')}.{group}" == kind:
                return document
        return None

    def _selected(self, composition: str) -> bool:
        """Return whether the admission policy of a copy is in force."""
        bound = {
            access.text(binding, "spec", "policyName")
            for binding in self.by_kind["MutatingAdmissionPolicyBinding"]
        }
        policies = {_name(policy) for policy in self.by_kind["MutatingAdmissionPolicy"]}
        return composition in policies & bound

    # The function ------------------------------------------------------------------------------

    def of_functions(self) -> Iterator[Finding]:
        known = {_name(d): d for d in self.by_kind["Function"]}
        if not any(self.stepped().values()):
            return
        ours = known.get(self.function)
        subject = f"Function {self.function}"
        if not known:
            message = (
                "no Function is here: whether ours is installed was not checked. Documents need"
                " functions.pkg.crossplane.io too."
            )
            yield Finding(False, subject, message)
        elif ours is None:
            message = "is not installed, but a pipeline calls it. Install it."
            yield Finding(True, subject, message)
        elif access.condition(ours, "Healthy").get("status") != "True":
            said = access.condition(ours, "Healthy").get("message", "")
            yield _problem(ours, f"is not healthy: {said}")

    def of_clusters(self) -> Iterator[Finding]:
        """Yield what two tiers of one cluster cannot both have."""
        here: dict[str, list[Document]] = defaultdict(list)
        for tier in self.by_kind["KVOffloadTier"]:
            if cluster := access.text(tier, "spec", "inferenceClusterRef", "name"):
                here[cluster].append(tier)
        for cluster, tiers in sorted(here.items()):
            for said in tier_conflicts.of_documents(tiers, BACKENDS):
                message = f"two tiers cannot have the same: {said}. Change or remove one."
                yield Finding(True, f"InferenceCluster {cluster}", message)

    def of_webhooks(self) -> Iterator[Finding]:
        """Yield webhooks of others that may change what we compose, or who asks for it."""
        for document in self.by_kind["MutatingWebhookConfiguration"]:
            for hook in access.objects(document, "webhooks"):
                if any(map(_covers_ours, access.objects(hook, "rules"))):
                    yield _note(
                        document,
                        f"webhook {hook.get('name')} may change Objects or tiers before they are "
                        "stored. If Objects never settle, exclude them there.",
                    )


def _covers_ours(rule: Mapping[str, Any]) -> bool:
    groups = access.at(rule, "apiGroups")
    return isinstance(groups, list) and any(g in groups for g in ("*", names.GROUP, _OBJECTS))


def _names_a_tier(value: Any) -> bool:
    """Return whether a spec names a tier somewhere, by our annotation or our field."""
    if isinstance(value, dict):
        return any(
            (key in (names.ANNOTATION_TIER, "kvOffloadTierRef") and item) or _names_a_tier(item)
            for key, item in value.items()
        )
    return isinstance(value, list) and any(map(_names_a_tier, value))


def _opened(documents: Iterable[Document]) -> Iterator[Document]:
    for document in documents:
        if str(document.get("kind", "")).endswith("List") and "items" in document:
            yield from _opened(access.objects(document, "items"))
        else:
            yield document


def _name(document: Mapping[str, Any]) -> str:
    return access.text(document, "metadata", "name")


def _reference(document: Mapping[str, Any], field_name: str) -> str:
    """Return the name in a composite's reference, in either generation of definitions."""
    path = ("spec", "crossplane", field_name, "name")
    return access.text(document, *path) or access.text(document, "spec", field_name, "name")


def _composed(document: Mapping[str, Any]) -> list[Document]:
    """Return what a composite composes, as its references say, in either generation."""
    for path in (("spec", "crossplane", "resourceRefs"), ("spec", "resourceRefs")):
        if found := access.objects(document, *path):
            return found
    return []


def _default(definition: Mapping[str, Any]) -> str:
    """Return the Composition that a definition chooses by default, "" without one."""
    fields = ("enforcedCompositionRef", "defaultCompositionRef")
    found = (access.text(definition, "spec", name, "name") for name in fields)
    return next(filter(None, found), "")


def _condition(document: Mapping[str, Any]) -> dict[str, Any]:
    return access.condition(document, CONDITION)


def _kind_of(document: Mapping[str, Any]) -> str:
    return f"{document.get('kind')}.{str(document.get('apiVersion', '')).partition('/')[0]}"


def _composes(composition: Mapping[str, Any]) -> str:
    return _kind_of(access.mapping(composition, "spec", "compositeTypeRef"))


def _functions(composition: Mapping[str, Any]) -> list[str]:
    """Return the functions of a Composition's or revision's pipeline, in order."""
    steps = access.objects(composition, "spec", "pipeline")
    return [access.text(step, "functionRef", "name") for step in steps]


def _subject(document: Mapping[str, Any]) -> str:
    namespace = access.text(document, "metadata", "namespace")
    name = f"{namespace}/{_name(document)}" if namespace else _name(document)
    return f"{document.get('kind')} {name}"


def _problem(document: Mapping[str, Any], message: str) -> Finding:
    return Finding(True, _subject(document), message)


def _note(document: Mapping[str, Any], message: str) -> Finding:
    return Finding(False, _subject(document), message)
