"""Compose a tier on one cluster: its backend's agents, control plane and network, in Objects.

The observed documents are read path by path, and everything that follows from the spec alone
(validation, manifests, their encoded Structs) is remembered by the spec's bytes: a steady call
costs little more than reading the request.

Rejected: composing the workload-cluster resources by a second XR per cluster. One more XR per tier
doubles the reconciles, and Objects already carry the cluster in their providerConfigRef.
"""

from collections.abc import Iterable
from dataclasses import replace
from functools import cached_property

from function import names
from function.api.base import present
from function.api.events import Events
from function.api.input import Input
from function.backends.registry import Registry
from function.composers import (
    agents,
    external_xrd,
    fleet,
    in_use,
    outage,
    pinned,
    provider_config_guard,
    quarantine,
    rollout,
    serving,
    tier_plan,
)
from function.composers import conditions as c
from function.composers.admission import MAX_CLOSED, admitted, closed_namespaces, users_status
from function.composers.admission import is_settled as is_admission_settled
from function.composers.agents import Agents
from function.composers.in_use import REQUIRED_USAGES, in_use_status, is_in_use
from function.composers.needed import Needed
from function.composers.tier_plan import InvalidTier, TierPlan
from function.composers.tier_refusal import as_it_runs, refuse, waiting
from function.composers.usage import Consumer, usages_of, user
from function.contract.backend import AGENTS, CONTROL_PLANE, OBSERVER, AnyTier, Part
from function.contract.events import TOPICS
from function.edge.answer import (
    FALSE,
    TRUE,
    TTL_UNSETTLED,
    TTL_WITH_REQUIREMENTS,
    UNKNOWN,
    Answer,
    Composed,
    Condition,
    Requirement,
)
from function.edge.request import Call
from function.kube import objects
from function.kube.access import Json
from function.problems import Problem

REQUIRED_CLUSTER = "cluster"

_PROVIDER_CONFIG = ("status", "providerConfigRef", "name")
_DELETION = ("metadata", "deletionTimestamp")

# The recommended label by which a backend says what version a workload runs.
LABEL_VERSION = "app.kubernetes.io/version"

_TOO_MANY_CLOSED = (
    f"spec.allowedNamespaces: more than {MAX_CLOSED} namespaces that it does not admit still use"
    " the tier, so the Usages of every namespace count. Move their consumers to another tier."
)


def compose(call: Call, _: Input, backends: Registry) -> Answer:
    """Refuse a tier with all its problems, stamp it onto a fleet, or compose it on its cluster."""
    answer = _answer(call, backends)
    generation = call.composite_value("metadata", "generation")
    if answer.status and generation:
        answer.status["observedGeneration"] = generation
    return external_xrd.fitted(call, answer)


def _answer(call: Call, backends: Registry) -> Answer:
    namespace = str(call.composite_value("metadata", "namespace") or "")
    name = str(call.composite_value("metadata", "name") or "")
    spec = call.composite_value("spec") or {}
    identity = (namespace, name, spec, call.composite_spec_bytes, backends)
    drafted = tier_plan.draft(*identity)
    if isinstance(drafted, InvalidTier):
        return refuse(call, pinned.reminded(call, drafted.problems))
    needed = Needed.of(call, drafted, backends)
    if needed.unresolved:
        return waiting(call, needed)
    if needed.problems:
        planned: TierPlan | InvalidTier = InvalidTier(needed.problems)
    else:
        planned = tier_plan.plan(*identity, needed.documents)
    answer = _judged(call, planned, spec, needed)
    answer.requirements |= needed.requirements
    return answer


def _judged(call: Call, planned: TierPlan | InvalidTier, spec: Json, needed: Needed) -> Answer:
    if isinstance(planned, InvalidTier):
        answer = refuse(call, pinned.reminded(call, planned.problems))
        if needed.requirements:  # which may be right in a moment, and core does not watch them
            answer.ttl = TTL_UNSETTLED
        return answer
    if left := _left_cluster(call, planned):
        return refuse(call, left)
    if planned.is_fleet:
        return fleet.compose(call, planned, spec)
    return _TierComposer(call, planned, needed).compose()


def _left_cluster(call: Call, planned: TierPlan) -> list[Problem]:
    """Refuse to take a tier off the cluster where it is used; another package's XRD may allow it.

    That XRD may have no `status.cluster`: then its parts show that a fleet was a tier of one.
    """
    ref = planned.tier.spec.inference_cluster_ref
    was = str(call.composite_value("status", "cluster") or "")
    on_one = bool(was) and "/" not in was  # a fleet's counts clusters
    left = on_one and was != ref.name if ref else on_one or bool(_parts(call))
    if not (left and is_in_use(call)):
        return []
    said = (
        f"cannot change while engines use the tier on its cluster{f' ({was})' if on_one else ''}."
        " Set it back; declare the new tier under another name and move the consumers"
    )
    return [Problem("spec.inferenceClusterRef", said)]


def _parts(call: Call) -> set[str]:
    """Return the keys of what runs of a tier of one cluster, whatever its spec says now."""
    of_fleet = (fleet.PREFIX, provider_config_guard.PREFIX)
    own = (key for key in call.observed_keys() if not key.startswith(of_fleet))
    return {key for key in own if call.observed_value(key, "kind") == "Object"}


class _TierComposer:
    def __init__(self, call: Call, planned: TierPlan, needed: Needed) -> None:
        self.call = call
        self.plan = planned
        self.needed = needed
        self.tier = planned.tier
        self.cluster = present(planned.tier.spec.inference_cluster_ref).name
        self.provider_config = ""
        self.upgrade_problem = self._upgrade_problem()
        self.usages = self._usages()
        self.refused_writes = {p.key: call.refused_write(p.key) for p in planned.parts}
        self.children = fleet.children(call)
        self.rollout: rollout.Rollout | None = None
        self.serving = serving.Serving(None)
        self.quarantined: list[Json] = []
        self.mark = in_use.Mark()
        self.answer = Answer()

    def compose(self) -> Answer:
        self.require()
        problems = self.refused_change() + self.left_fleet()
        if problems:
            return self.refuse_edit(problems)
        self.resolve_cluster()
        self.accept()
        if self.provider_config:
            self.compose_parts()
        self.mark_needed()
        self.check_mark()
        self.derive_conditions()
        self.roll()
        self.write_status()
        self.choose_ttl()
        return self.answer

    def refuse_edit(self, problems: Iterable[Problem]) -> Answer:
        """Refuse a change of what runs; conditions go on about that, where the parts are its own.

        An edit may wait for days: agents that fail meanwhile must show.
        """
        answer = refuse(self.call, problems)
        answer.requirements = self.answer.requirements
        if self.children or _parts(self.call) != {part.key for part in self.plan.parts}:
            return answer
        self.resolve_cluster()
        if self.provider_config:
            self.compose_parts()
        self.derive_conditions()
        answer.conditions = [*answer.conditions[:1], *map(as_it_runs, self.answer.conditions)]
        return answer

    def require(self) -> None:
        self.answer.requirements = {
            REQUIRED_CLUSTER: Requirement(names.API_VERSION, "InferenceCluster", name=self.cluster),
        }
        if self.judges_users:
            self.answer.requirements[REQUIRED_USAGES] = usages_of(
                self.tier.namespace, self.tier.name
            )

    @cached_property
    def judges_users(self) -> bool:
        """Return whether anything depends on who uses the tier: most calls need not know."""
        return (
            self.tier.spec.wiring.update == "Rolling"
            or self.upgrade_problem is not None
            or not pinned.is_settled(self.plan, pinned.kept(self.call))
            or not is_admission_settled(self.call.composite)
        )

    def _usages(self) -> list[Json] | None:
        """Return the Usages that count; [] where nothing depends on them, None while unresolved."""
        if not self.judges_users:
            return []
        found = self.call.required(REQUIRED_USAGES)
        return None if found is None else admitted(self.call.composite, found)

    def _upgrade_problem(self) -> Problem | None:
        """Return why what runs may not become what the spec says, while the tier is used."""
        where = ("spec", "forProvider", "manifest", "metadata", "labels", LABEL_VERSION)
        keys = self.call.observed_keys()
        running = {key: self.call.observed_value(key, *where) for key in keys}
        running = {key: str(version) for key, version in running.items() if version}
        return self.plan.backend.refuses_change(self.tier, running)

    def refused_change(self) -> list[Problem]:
        """Return what forbids the change from what runs.

        As long as the consumers are not looked up, nothing: core calls again before it applies.
        """
        if self.usages is None:
            return []
        problems = pinned.problems(self.call, self.plan, self._users() or ())
        problems += pinned.of_claims(self._claim, self.plan)
        if self.usages and self.upgrade_problem:
            problems.append(self.upgrade_problem)
        return problems

    def _claim(self, key: str) -> tuple[object, object]:
        return (
            self.call.observed_value(key, *objects.MANIFEST, "spec"),
            self.call.observed_value(key, *objects.STATUS_MANIFEST, "spec"),
        )

    def _users(self) -> list[Consumer] | None:
        """Return who uses the tier; None while unresolved."""
        return None if self.usages is None else [user(usage) for usage in self.usages]

    def left_fleet(self) -> list[Problem]:
        """Refuse to turn a fleet tier into a tier of one cluster while its children are used."""
        if not any(is_in_use(self.call, fleet.PREFIX + cluster) for cluster in self.children):
            return []
        where = ", ".join(sorted(self.children))
        said = (
            f"cannot be taken away while engines use the tier on its clusters ({where}). Set it"
            " back; declare the tier of one cluster under another name and move the consumers"
        )
        return [Problem("spec.clusterSelector", said)]

    def resolve_cluster(self) -> None:
        """Find the cluster's ClusterProviderConfig; what runs keeps its own."""
        found = self.call.required_values(REQUIRED_CLUSTER, _PROVIDER_CONFIG, _DELETION)
        status, reason, message = (
            TRUE,
            c.REASON_RESOLVED,
            f"Runs on InferenceCluster {self.cluster}.",
        )
        if found is None:
            status, reason = UNKNOWN, c.REASON_RESOLVING
            message = f"Waiting for Crossplane to look up InferenceCluster {self.cluster}."
        elif not found:
            status, reason = FALSE, c.REASON_CLUSTER_NOT_FOUND
            message = (
                f"spec.inferenceClusterRef.name: there is no InferenceCluster {self.cluster}."
                " Create it, or correct the name."
            )
        elif not found[0][0]:
            status, reason = FALSE, c.REASON_NO_PROVIDER_CONFIG
            message = (
                f"InferenceCluster {self.cluster} has no status.providerConfigRef yet; the tier is"
                " composed as soon as it has one."
            )
        else:
            self.provider_config = found[0][0]
            if found[0][1]:
                message += (
                    " It is being deleted, and its ProviderConfig stays until this tier's Objects"
                    " are gone: move the consumers, then delete the tier, in the background (in the"
                    " foreground the ProviderConfig may go before the Objects, which then stay)."
                )
        if not self.provider_config and self.call.anything_observed:
            self.provider_config = self.call.observed_provider_config()
            message += " What runs is kept as it is."
        self.answer.conditions.append(Condition(c.CONDITION_CLUSTER, status, reason, message))

    @cached_property
    def moves(self) -> bool:
        """Return whether the tier's own parts are not all on the cluster that is desired."""
        keys = [part.key for part in self.plan.parts if part.role != OBSERVER]
        kind, reason = c.CONDITION_AGENTS, c.REASON_WAITING
        return outage.moves(self.call, keys, self.provider_config, kind, reason)

    @cached_property
    def agents(self) -> Agents:
        """Return the agents on the tier's cluster."""
        parts = (part.key for part in self.plan.parts if part.role == AGENTS)
        if self.moves or any(map(self.call.is_leaving, parts)):
            return Agents()
        return Agents.of(self.call, self.plan.parts, self.tier.spec.upgrade_policy)

    def accept(self) -> None:
        warnings = [*self.plan.description.warnings]
        if len(closed_namespaces(self.call.composite, self.usages or [])) > MAX_CLOSED:
            warnings.append(_TOO_MANY_CLOSED)
        message = " ".join(warnings)
        self.answer.conditions.insert(
            0, Condition(c.CONDITION_ACCEPTED, TRUE, c.REASON_VALID, message)
        )

    def compose_parts(self) -> None:
        wrapped = self.plan.wrapped(self.provider_config)
        for part in self.plan.parts:
            exists = self.call.observed_ready(part.key, by_existing=not part.ready)
            ready = exists and not self.moves
            if part.role == AGENTS:
                ready = self.agents.enough(self.tier.spec.readiness)
            if self.refused_writes[part.key]:
                ready = False
            if part.role == OBSERVER:
                ready = True  # it says whether the tier serves, and keeps it from nothing
            self.answer.resources[part.key] = Composed(wrapped[part.key], ready)

    def mark_needed(self) -> None:
        """Mark the tiers that this one needs, by Usages that it never awaits."""
        for key, manifest in self.needed.usages(self.plan).items():
            self.answer.resources[key] = Composed(manifest, True)

    def check_mark(self) -> None:
        """Have core take off its mark of use where nobody holds it any more."""
        tier, resources = (self.tier.namespace, self.tier.name), self.mark.resources
        if external_xrd.is_ours(self.call):
            self.mark = in_use.checked(self.call, tier)
            self.answer.requirements |= self.mark.requirements
            resources = self.mark.resources
        elif self.judges_users and not self.usages and is_in_use(self.call):
            # Another's status may not hold what is known; what is lost is found without it.
            resources = in_use.lost_usages(self.call, tier, self.answer.requirements)
        for key, manifest in resources.items():
            self.answer.resources[key] = Composed(manifest, True)

    def derive_conditions(self) -> None:
        self.answer.conditions += [self._control_plane(), self._agents_ready()]
        if self.call.composite_condition(c.CONDITION_ROLLED_OUT):  # a fleet before
            said = (TRUE, c.REASON_NONE_NEEDED, "A tier of one cluster has no roll-out.")
            self.answer.conditions.append(Condition(c.CONDITION_ROLLED_OUT, *said))
        watching = [part.key for part in self.plan.parts if part.role == OBSERVER]
        config, kind, reason = self.provider_config, c.CONDITION_SERVING, serving.NOT_OBSERVED
        known = config and not self.moves
        if known and not outage.moves(self.call, watching, config, kind, reason):
            self.serving = serving.of(self.call, self.plan, self.cluster)
        else:
            self.serving = serving.Serving(next(iter(serving.unjudged(self.call)), None))
        observe, serves = self.tier.spec.observe, self.serving.condition
        self.quarantined = quarantine.rows(self.call, observe, self.serving.models)
        if serves is not None:
            message = f"{serves.message} {quarantine.said(self.quarantined)}".strip()
            self.answer.conditions.append(replace(serves, message=message))
        self.answer.ready = (
            bool(self.provider_config)
            and not self.needed.waiting
            and all(part.ready for part in self.answer.resources.values())
        )

    def _control_plane(self) -> Condition:
        """Judge everything but the agents: what supports the control plane is a part of it."""
        kind = c.CONDITION_CONTROL_PLANE
        if not self.provider_config:
            return self._no_cluster(kind)
        others = [p for p in self.plan.parts if p.role not in (AGENTS, OBSERVER)]
        refused = self._refused(kind, [p.key for p in others])
        if self.moves:
            return self._no_cluster(kind, refused)
        if refused:
            return refused
        if self.needed.waiting:
            return Condition(kind, FALSE, c.REASON_WAITING_FOR_TIER, " ".join(self.needed.waiting))
        parts = [p for p in others if p.role == CONTROL_PLANE]
        starts = self._unready(parts) or self._unready(others)
        if starts:
            late = agents.timed_out(self.call, self.plan.description, kind)
            return agents.starting(kind, starts, self.plan.description, late)
        old = [p.key for p in others if not (starts or agents.is_current(self.call, p))]
        if old:
            return agents.not_updated(self.call, kind, old, self.plan.description)
        if not parts:
            return self._none_needed(kind)
        return Condition(kind, TRUE, c.REASON_READY, agents.other_images(self.call, parts))

    def _unready(self, parts: Iterable[Part]) -> list[str]:
        return [p.key for p in parts if not self.answer.resources[p.key].ready]

    def _agents_ready(self) -> Condition:
        kind = c.CONDITION_AGENTS
        if not self.provider_config:
            return self._no_cluster(kind)
        parts = [p for p in self.plan.parts if p.role == AGENTS]
        refused = self._refused(kind, [p.key for p in parts])
        if self.moves:  # its reason is what the next call knows the move by
            return self._no_cluster(kind, refused)
        if refused:
            return refused
        if not parts:
            return self._none_needed(kind)
        found = agents.condition(self.call, self.agents, self.tier.spec, self.plan.description)
        if found.reason != c.REASON_READY:
            return found
        message = f"{found.message} {agents.other_images(self.call, parts)}".strip()
        return replace(found, message=message)

    def _no_cluster(self, kind: str, refused: Condition | None = None) -> Condition:
        message = f"Waiting for cluster {self.cluster}."
        if self.provider_config:
            message += (
                f" The provider has not applied the tier by ClusterProviderConfig"
                f" {self.provider_config} yet. If it stays so: kubectl describe objects -n"
                f" {self.tier.namespace}."
            )
        if refused:
            message += f" {refused.message}"
        return Condition(kind, FALSE, c.REASON_WAITING, message)

    def _none_needed(self, kind: str) -> Condition:
        message = f"{self.tier.spec.backend} needs none here."
        return Condition(kind, TRUE, c.REASON_NONE_NEEDED, message)

    def _refused(self, kind: str, keys: list[str]) -> Condition | None:
        """Return what the provider cannot see or the cluster refused, None without an error."""
        if unseen := outage.not_observed(self.call, kind, keys, self.cluster):
            return unseen
        message = outage.quoted((key, self.refused_writes[key]) for key in keys)
        return Condition(kind, FALSE, c.REASON_NOT_APPLIED, message) if message else None

    def write_status(self) -> None:
        desired, ready = self.agents.desired, self.agents.shown
        status: Json = {
            "cluster": self.cluster,
            "agents": {"desired": desired, "ready": ready, "summary": f"{ready}/{desired}"},
            "capacityGiB": ready * self._gib_per_agent(),
            "endpoints": dict(self.plan.description.endpoints),
            "podSecurity": self.plan.description.pod_security,
            "pinned": pinned.settings(self.plan, pinned.kept(self.call), self._users()),
        }
        if self.provider_config:
            status["providerConfigRef"] = {"name": self.provider_config}
        status["consumers"] = in_use_status(used=is_in_use(self.call))
        if self.mark.usage:
            status["usage"] = self.mark.usage
        if self.usages is not None:
            status |= users_status(self.call.composite, self.usages)
        if self.serving.status is not None:
            status["serving"] = self.serving.status
        if self.quarantined:
            status["quarantine"] = self.quarantined
        if self.tier.spec.events is not None:
            status["events"] = published(self.tier, self.tier.spec.events)
        if self.rollout is not None:
            before = self.call.composite_value("status", "wiring")
            status["wiring"] = self.rollout.status(before)
        self.answer.status = status

    def _gib_per_agent(self) -> int:
        """Return what a ready agent holds: as much as before while one may run without an edit."""
        capacity = self.call.composite_value("status", "capacityGiB")
        ready = self.call.composite_value("status", "agents", "ready")
        if capacity and ready and self.agents.ready > self.agents.updated:
            return int(capacity // ready)
        return self.plan.description.capacity_gib_per_agent

    def roll(self) -> None:
        """Hand out turns to move to the tier's new wiring."""
        wiring = self.tier.spec.wiring
        if wiring.update == "Rolling" and self.usages is not None:
            observed = self.call.observed_keys()
            self.rollout = rollout.of(
                self.usages,
                wiring,
                ready=self.answer.ready is True,
                observed=observed,
                late={key for key in observed if rollout.is_late(self.call, key)},
            )
            generation = self.call.composite_value("metadata", "generation")
            times = sum(row["number"] for row in self.quarantined)
            tier = self.tier.namespace, self.tier.name
            for key, manifest in self.rollout.resources(tier, generation, times).items():
                self.answer.resources[key] = Composed(manifest, True)

    def choose_ttl(self) -> None:
        unresolved = any(self.call.required(name) is None for name in self.answer.requirements)
        rolls = self.rollout is not None and bool(self.rollout.behind or self.rollout.moving)
        unresolved |= not self.mark.is_settled
        settled = self.answer.ready and not unresolved and not rolls and self.serving.settled
        resolved = self.answer.conditions[1].status == TRUE
        self.answer.ttl = TTL_WITH_REQUIREMENTS if settled and resolved else TTL_UNSETTLED


def published(tier: AnyTier, asked: Events) -> Json:
    """Return `status.events`: what a router needs to follow the events of the tier's engines."""
    found = {
        "podSelector": ",".join(f"{name}={value}" for name, value in tier.wired_labels.items()),
        "port": asked.port,
        "replayPort": asked.replay_port,
        "topicFilter": TOPICS,
        "blockTokens": asked.block_tokens,
        "hashSeed": asked.hash_seed,
    }
    return {name: value for name, value in found.items() if value is not None}
