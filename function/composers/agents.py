"""Judge whether a tier's agents are ready: by a share of the nodes that need one.

The same share decides when an update is through: agents that still run the old template keep a tier
ready, and prove nothing of its edit.

No agent at all is not ready, whatever the DaemonSet's numbers say; one bad node of many freezes
nobody, not while agents roll either; and a start that outlasts its time says so, with what usually
stands in the way: pods that are refused leave no trace in what the provider reports.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from function.api.tier import Readiness, TierSpec, UpgradePolicy
from function.composers import conditions as c
from function.contract.backend import AGENTS, Description, Part
from function.contract.image_reference import ImageReference
from function.contract.platforms import label_keys, tolerations
from function.edge.answer import FALSE, TRUE, Condition
from function.edge.request import Call
from function.kube import access, objects
from function.kube.access import Json
from function.problems import cut

_STATUS = (*objects.STATUS_MANIFEST, "status")
# (created, ready, of the current template) fields of the workload kinds that agents run in.
_OF_NODES = ("currentNumberScheduled", "numberReady", "updatedNumberScheduled")
_OF_REPLICAS = ("replicas", "readyReplicas", "updatedReplicas")
_DESIRED = "desiredNumberScheduled"
# In a message: pods that the cluster does not create.
MISSING = "not exist"
# An autoscaler plans with a node that it has not seen yet.
_FROM_ZERO = (
    "An autoscaler must know the labels and taints of such a node from its node group's template"
    " (tags k8s.io/cluster-autoscaler/node-template/..., or the node pool's own), or it brings none"
    " for an engine, and leave room on it for an agent."
)
_POD = ("spec", "template", "spec")
_LONGEST_IMAGE = 512
_OTHER_IMAGE = (
    "Somebody edited the workload, or a webhook rewrites images; the tier's version is that of its"
    " own image. Set the image back, or set it in the tier."
)
_NONE_READY = "No agent has become ready"
_SOME_UNREADY = "Some agents have not become ready"
# Beside the start-up itself: pulling an image of several GiB.
_PULL_SECONDS = 300


@dataclass(frozen=True)
class Agents:
    """`desired`, `ready`: over all of a tier's agents. `misplaced`: on nodes that fit no longer.

    While a DaemonSet replaces its pods in turn, as many count as not ready as it may take down:
    each pod would change the status twice, which calls every consumer on core 2.4.

    `reported`: whether the cluster has said anything of them yet. `missing`: agents that should run
    and have no pod, because the cluster does not create it. `updated`: at least so many run the
    current template and are ready. `rounds`: how many starts an update takes one after the other.
    `kind`: of their workload.
    """

    desired: int = 0
    ready: int = 0
    misplaced: int = 0
    reported: bool = False
    missing: int = 0
    updated: int = 0
    rounds: int = 1
    kind: str = "DaemonSet"

    @classmethod
    def of(cls, call: Call, parts: Iterable[Part], policy: UpgradePolicy) -> "Agents":
        """Read the agents' counts from what the cluster reports."""
        desired = ready = misplaced = missing = current = 0
        reported, rounds, kind = False, 1, cls.kind
        for part in parts:
            if part.role != AGENTS:
                continue
            kind = part.manifest["kind"]
            fields = _OF_NODES if kind == "DaemonSet" else _OF_REPLICAS
            status = access.mapping(call.observed_value(part.key, *_STATUS))
            found = [status.get(field) for field in fields]
            created, up, updated = map(_count, found)
            if kind == "DaemonSet":
                planned = status.get(_DESIRED)
                wanted, is_there = _count(planned), isinstance(planned, int)
                created = created if isinstance(found[0], int) else wanted
            else:  # its status counts pods that exist, not those that it should have
                is_there = isinstance(found[0], int)
                asked = call.observed_value(part.key, *objects.MANIFEST, "spec", "replicas")
                wanted = (_count(asked) or part.manifest["spec"]["replicas"]) if is_there else 0
            absent = max(0, wanted - created)
            if kind != "DaemonSet" and 0 < updated < created:
                absent = 0  # one is being replaced
            missing += absent
            reported = reported or is_there
            current += max(0, updated + up - created) if is_current(call, part) else 0
            up = min(up, wanted)  # while replicas go
            at_once = max(1, needed(policy.max_unavailable, wanted))
            # A pod that the cluster does not create is no old one.
            if policy.type == "RollingUpdate" and 0 < updated < wanted - absent:
                up = min(up, max(0, wanted - at_once))
                rounds = max(rounds, -(-wanted // at_once))
            desired += wanted
            ready += up
            misplaced += _count(status.get("numberMisscheduled"))
        return cls(desired, ready, misplaced, reported, missing, current, rounds, kind)

    @property
    def shown(self) -> int:
        """Return how many are ready in steps of a twentieth of `desired`, exact when all are.

        Each change of the status calls every consumer on core 2.4: a start on 1,000 nodes is 21
        changes.
        """
        return self.ready if self.ready >= self.desired else self.ready - self.ready % self._step

    @property
    def missing_text(self) -> str:
        """Return how many pods do not exist, for people."""
        step = self._step
        most = -(-self.missing // step) * step
        return f"{most} of their pods do" if step == 1 else f"Up to {most} of their pods do"

    @property
    def starts(self) -> int:
        """Return how many starts an update may take: one, until an agent is ready with it."""
        return self.rounds if self.updated else 1

    @property
    def _step(self) -> int:
        return max(1, self.desired // 20)

    @property
    def text(self) -> str:
        """Return how many are ready, for people."""
        some = "" if self._step == 1 or self.shown >= self.desired else "At least "
        return f"{some}{self.shown} of {self.desired} agents are ready"

    def enough(self, readiness: Readiness) -> bool:
        """Return whether as many are ready as the tier asks for."""
        return (
            self.reported
            and self.desired >= readiness.min_nodes
            and self.ready >= needed(readiness.min_available, self.desired)
        )

    def updating(self, readiness: Readiness) -> bool:
        """Return whether fewer run the current template than the tier asks for."""
        return self.updated < needed(readiness.min_available, self.desired)


def needed(min_available: int | str, desired: int) -> int:
    """Return how many of `desired` must be ready; a percentage is rounded up."""
    if isinstance(min_available, str):
        percent = int(min_available.removesuffix("%"))
        return -(-desired * percent // 100)
    return min(min_available, desired)


def is_current(call: Call, part: Part) -> bool:
    """Return whether what is observed of a workload is what has become of its manifest.

    The cluster's controller writes the generation that it has seen, as the provider does. Of what
    the provider does not watch it shows that only when it looks again, up to ten minutes later.
    """
    asked = call.observed_part(part.key, *objects.MANIFEST)
    if any(asked.get(key) != value for key, value in part.manifest.items() if key != "metadata"):
        return False
    if not call.is_applied(part.key):
        return False
    seen = call.observed_value(part.key, *_STATUS, "observedGeneration")
    live = call.observed_value(part.key, *objects.STATUS_MANIFEST, "metadata", "generation")
    return not part.watch or seen in (None, live)


def other_images(call: Call, parts: Iterable[Part]) -> str:
    """Return which containers have another image on the cluster than is composed, "" for none.

    A registry's mirror has another host and path, and a policy may add a digest.
    """
    found = []
    for part in parts:
        there = _images(call.observed_part(part.key, *objects.STATUS_MANIFEST, *_POD))
        for name, image in _images(access.mapping(part.manifest, *_POD)).items():
            other = there.get(name)
            if other and not _is_same_image(other, image):
                said = cut(other, _LONGEST_IMAGE)
                found.append(f"{part.key}: container {name} has image {said}, not {image}.")
    return " ".join([*found, _OTHER_IMAGE] if found else [])


def _images(pod: Json) -> dict[str, str]:
    rows = [*access.objects(pod, "initContainers"), *access.objects(pod, "containers")]
    return {access.text(row, "name"): access.text(row, "image") for row in rows}


def _is_same_image(one: str, other: str) -> bool:
    """Return whether the names are the same, and tag and digest as far as both have one."""
    this, that = ImageReference.parse(one), ImageReference.parse(other)
    pairs = (this.tag, that.tag), (this.digest, that.digest)
    return this.name == that.name and all(a == b or not (a and b) for a, b in pairs)


def condition(call: Call, agents: Agents, spec: TierSpec, description: Description) -> Condition:
    """Return AgentsReady of a tier that has agents."""
    if agents.enough(spec.readiness):
        if agents.updating(spec.readiness):
            return _updating(call, agents, spec, description)
        if not agents.desired:
            message = "No node matches spec.nodes now; an agent starts with the first."
            message += f" {_FROM_ZERO}"
            return Condition(c.CONDITION_AGENTS, TRUE, c.REASON_NO_NODES, message)
        message = ""
        if agents.ready < agents.desired:
            message = f"{agents.text}, which is enough."
        return Condition(c.CONDITION_AGENTS, TRUE, c.REASON_READY, message)
    if agents.reported and agents.desired < spec.readiness.min_nodes:
        return Condition(c.CONDITION_AGENTS, FALSE, c.REASON_NO_NODES, _no_nodes(agents, spec))
    if not timed_out(call, description, rounds=agents.starts):
        message = _counts(agents, spec)
        if agents.missing:
            message += _refused(agents, description)
        return Condition(c.CONDITION_AGENTS, FALSE, c.REASON_STARTING, message)
    causes = _of_refusal(description) if agents.missing else ["the image cannot be pulled"]
    hints = "; ".join([*causes, *description.startup_hints])
    message = (
        f"{_counts(agents, spec)} It has been so for longer than a start takes"
        f" ({_budget(description)} s)."
        f" Usual causes: {hints}."
        f" kubectl describe on the agents' {agents.kind} and pods, on the workload cluster, says"
        " which."
    )
    return Condition(c.CONDITION_AGENTS, FALSE, c.REASON_TIMED_OUT, message)


def _updating(call: Call, agents: Agents, spec: TierSpec, description: Description) -> Condition:
    """Return the condition of agents that serve while too few of them are updated.

    The message changes once, with the first that is: each change calls every consumer. With that
    the time of the others begins.
    """
    by_hand = spec.upgrade_policy.type == "OnDelete"
    goes_on = agents.updated and _said(call).startswith(_NONE_READY)
    late = timed_out(call, description, reason=c.REASON_UPDATING, rounds=agents.starts)
    if late and not by_hand and not goes_on:
        message = (
            f"{_SOME_UNREADY if agents.updated else _NONE_READY} with the tier's edit for"
            f" {_budget(description) * agents.starts} s; the others run as before. kubectl describe"
            " on the agents' pods, on the workload cluster, says why. Correct the edit, or set it"
            " back."
        )
        return Condition(c.CONDITION_AGENTS, TRUE, c.REASON_UPDATE_TIMED_OUT, message)
    some = "Not all agents run" if agents.updated else "No agent runs"
    message = f"{some} the tier's last edit yet; the others serve as before."
    if by_hand:
        message += " upgradePolicy.type is OnDelete: delete the agents' pods to update them."
    return Condition(c.CONDITION_AGENTS, TRUE, c.REASON_UPDATING, message)


def _said(call: Call) -> str:
    return access.text(call.composite_condition(c.CONDITION_AGENTS), "message")


def _refused(agents: Agents, description: Description) -> str:
    """Return what keeps a cluster from creating pods; no status of a DaemonSet holds it."""
    hints = "; ".join([*description.startup_hints, *_of_refusal(description)])
    return (
        f" {agents.missing_text} {MISSING}. If it stays so, the cluster refuses to"
        f" create them; usual causes: {hints}. The events of the agents'"
        f" {agents.kind} say which (kubectl describe, FailedCreate)."
    )


def _of_refusal(description: Description) -> list[str]:
    level = description.pod_security
    return [f"spec.namespace does not admit Pod Security level {level}", "a quota is used up"]


def _budget(description: Description) -> int:
    return description.startup_seconds + _PULL_SECONDS


def starting(kind: str, waiting: Sequence[str], description: Description, late: bool) -> Condition:
    """Return the condition of a control plane that starts; `late`: for longer than it takes."""
    message = "Not ready yet: " + ", ".join(waiting)
    if not late:
        return Condition(kind, FALSE, c.REASON_STARTING, message)
    message += (
        f". It has been so for longer than a start takes ({_budget(description)} s). What usually"
        " stands in the way: no volume for a claim (kubectl get pvc), no node with room, an image"
        " that cannot be pulled, a quota. kubectl describe on the Objects, and on the pods on the"
        " workload cluster, says which."
    )
    return Condition(kind, FALSE, c.REASON_TIMED_OUT, message)


def not_updated(call: Call, kind: str, old: Sequence[str], description: Description) -> Condition:
    """Return the condition of a control plane that serves without the tier's last edit."""
    message = f"Not updated yet: {', '.join(old)}."
    if not timed_out(call, description, kind, c.REASON_UPDATING):
        return Condition(kind, TRUE, c.REASON_UPDATING, message)
    message += (
        f" It has been so for {_budget(description)} s; what ran before serves on. kubectl describe"
        " on the Objects says whether the provider applies them."
    )
    return Condition(kind, TRUE, c.REASON_UPDATE_TIMED_OUT, message)


# What each reason of a start becomes, when it outlasts its time.
_LATE = {c.REASON_STARTING: c.REASON_TIMED_OUT, c.REASON_UPDATING: c.REASON_UPDATE_TIMED_OUT}


def timed_out(
    call: Call,
    description: Description,
    kind: str = c.CONDITION_AGENTS,
    reason: str = c.REASON_STARTING,
    rounds: int = 1,
) -> bool:
    """Return whether a condition has said `reason` for longer than a start takes.

    Core counts a condition's time anew whenever its reason or message changes: one that has timed
    out stays so until it is through, or the tier is edited: core writes no generation into it, so
    the status holds one. The time of another reason is no start's. `rounds`: how many starts follow
    each other.
    """
    entry = call.composite_condition(kind)
    if entry.get("reason") == _LATE[reason]:
        seen = call.composite_value("status", "observedGeneration")
        return seen in (None, call.composite_value("metadata", "generation"))
    if entry.get("reason") != reason:
        return False
    since = access.moment(entry.get("lastTransitionTime"))
    return since is not None and call.has_passed(since + _budget(description) * rounds)


def _no_nodes(agents: Agents, spec: TierSpec) -> str:
    selector = ", ".join(f"{k}={v}" for k, v in sorted(spec.nodes.selector.items()))
    tolerated = ", ".join(t.key or "every taint" for t in tolerations(spec.nodes))
    said = f"Agents belong on {agents.desired} nodes"
    if agents.misplaced:
        said += f" ({agents.misplaced} more run where none belongs any more)"
    return (
        f"{said}, and spec.readiness.minNodes is {spec.readiness.min_nodes}."
        " A node runs one if it has the labels of spec.nodes.selector"
        f" ({selector or 'none: every node'}) and no taint beside those of spec.nodes.tolerations"
        f" ({tolerated or 'none'}). GPU nodes are labelled and tainted by their platform:"
        f" {', '.join(label_keys())} (docs/platforms.md)."
        " Where nodes come with the first engine (scale from zero), set minNodes to 0."
        f" {_FROM_ZERO}"
    )


def _counts(agents: Agents, spec: TierSpec) -> str:
    if not agents.reported:
        return "Not on the cluster yet."
    least = needed(spec.readiness.min_available, agents.desired)
    text = f"{agents.text}, {least} are needed."
    if agents.misplaced:
        text += f" {agents.misplaced} run on nodes that spec.nodes does not name any more."
    return text


def _count(value: object) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0
