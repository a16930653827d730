"""Compose a tier over a `clusterSelector`: a child tier per matching cluster, a fleet status.

An edit reaches the children in turns (`fleet_rollout`).

A child whose cluster no longer matches stays, with its spec and its cache, until `spec.removal` is
Remove: an edit of a selector or of a label empties no cache. A child in use stays desired always: a
denied delete would make core swallow the conflict and stop composing new children (measured,
reference section 5).

A cluster that is being deleted matches no more, and keeps no unused child: in the foreground it
waits for its ProviderConfig, which waits for the Objects of the child. Nor does one that was
declared again under the name of a deleted one: it waits for that same ProviderConfig. So the fleet
looks up by name the clusters that it keeps, and no others. Before a child goes the ProviderConfig
is held, until nothing is left of the child (provider_config_guard.py). The fleet tier is protected
as its children are, by a Usage of itself: a Usage on a child protects no parent.
"""

from function import names
from function.api.base import present
from function.composers import (
    auto,
    fleet_rollout,
    fleet_rollout_report,
    provider_config_guard,
    serving,
    tier_names,
)
from function.composers import conditions as c
from function.composers.fleet_rollout import FleetRollout, Stamp, stamped
from function.composers.in_use import in_use_status, is_in_use, lost_usages
from function.composers.tier_plan import TierPlan
from function.composers.usage import FLEET_KEY, of_fleet
from function.composers.waves import State
from function.contract.backend import AnyTier
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
from function.kube import access, naming
from function.kube.access import Json
from function.problems import cut

REQUIRED_CLUSTERS = "clusters"
REQUIRED_CHILDREN = "children"

# Of the resource keys of child tiers.
PREFIX = fleet_rollout.PREFIX

_DELETION = ("metadata", "deletionTimestamp")
_CREATION = ("metadata", "creationTimestamp")
_COMPOSED = ("spec", "crossplane", "resourceRefs")
_CONFIG = ("status", "providerConfigRef", "name")
_NAME = ("metadata", "name")
_FOUND = _NAME, ("metadata", "uid"), _DELETION, ("metadata", "labels"), _CONFIG
_OWNERS = ("metadata", "ownerReferences")
_STAMPED_FOR = ("metadata", "annotations", names.ANNOTATION_CLUSTER)
_CLUSTER = ("spec", "inferenceClusterRef", "name")

# Seconds in which core reconciles a child first.
_LONGEST_START = 300

# etcd stores 1.5 MiB of a tier, and the schema allows so many rows. In characters.
_MOST_ROWS, _LONGEST_MESSAGE, _ROOM_FOR_MESSAGES, _MOST_NAMES = 1024, 1024, 128 * 1024, 2048

_KEPT = (
    "Keeps {number} that spec.clusterSelector no longer matches, with the spec that each has:"
    " {names}. To take off those that nothing uses, set spec.removal to Remove."
)
_IN_USE = (
    "Keeps {number} that left the fleet, with the spec that each has, while a Usage protects its"
    " tier: {names}. Move the consumers; then it goes."
)
# Why a cluster that matches is passed over.
_GOES = "are being deleted"
_ANEW = "were declared again before the tier of the one before was gone"
_REDECLARED = (
    "Waits for {number} declared again before the tier of the one before was gone: {names}. Each"
    " gets its own when that is gone; move the consumers that still use it."
)
_LEAVING = "Being taken off, where the ProviderConfig is kept until nothing is left: "
_FRESH = (
    "Taken off once Crossplane has reconciled each: {names}. Where one stays, kubectl describe kvot"
    " says why."
)
_STRAY = "Crossplane composes it no more; delete it if it stays: KVOffloadTier "


def child(fleet: str, cluster: str, namespace: str, spec: Json, config: str) -> Json:
    """Return the child tier of a fleet (or inline) tier on one cluster.

    `config`: the ClusterProviderConfig that it is on, "" as long as that is not known.
    """
    on = {names.LABEL_PROVIDER_CONFIG: names.provider_config(config)} if config else {}
    return {
        "apiVersion": names.API_VERSION,
        "kind": "KVOffloadTier",
        "metadata": {
            "name": naming.label(fleet, cluster, limit=63),
            "namespace": namespace,
            "labels": {names.LABEL_FLEET: fleet, **on},
        },
        "spec": {**stamped(spec), "inferenceClusterRef": {"name": cluster}},
    }


def _child(
    tier: AnyTier, cluster: str, stamp: Stamp, cluster_uid: str, config: str, *, is_auto: bool
) -> Json:
    """Return a fleet's child with what later calls read of it."""
    made = child(tier.name, cluster, tier.namespace, stamp.spec, config)
    made["metadata"]["labels"] |= {names.LABEL_AUTO: "true"} if is_auto else {}
    if stamp.revision:
        made["metadata"]["labels"][names.LABEL_REVISION] = stamp.revision
    notes = {
        names.ANNOTATION_CLUSTER: cluster_uid,
        names.ANNOTATION_UNREADY: stamp.unready,
        names.ANNOTATION_PREVIOUS: stamp.previous,
        names.ANNOTATION_UNPROVEN: "true" if stamp.unproven else "",
    }
    notes = {key: value for key, value in notes.items() if value}
    if notes:
        made["metadata"]["annotations"] = notes
    if stamp.version:
        made["metadata"]["resourceVersion"] = stamp.version
    return made


def children(call: Call) -> dict[str, str]:
    """Return {cluster: name of the child tier that runs there now}."""
    found = {}
    for key in call.observed_keys():
        if not key.startswith(PREFIX):
            continue
        cluster = call.observed_value(key, "spec", "inferenceClusterRef", "name")
        name = call.observed_value(key, "metadata", "name")
        if cluster and name:
            found[cluster] = name
    return found


def compose(call: Call, plan: TierPlan, spec: Json) -> Answer:
    """Compose one child per matching cluster; keep those that are used."""
    return _FleetComposer(call, plan, spec).compose()


class _FleetComposer:
    def __init__(self, call: Call, plan: TierPlan, spec: Json) -> None:
        self.call = call
        self.plan = plan
        self.tier = plan.tier
        self.spec = spec
        self.is_auto = auto.is_labelled({"metadata": call.composite_value("metadata")})
        self.clusters: list[str] = []
        self.uids: dict[str, str] = {}
        self.labels: dict[str, dict[str, str]] = {}
        self.configs: dict[str, str] = {}  # the ClusterProviderConfigs
        # Clusters that match the selector; `clusters` has those too that are kept.
        self.staying: set[str] = set()
        # Clusters with a child that match no longer; of these what `spec.removal` keeps.
        self.unselected: set[str] = set()
        self.kept: set[str] = set()
        self.resolved = False
        self.used = {cluster for cluster in children(call) if is_in_use(call, PREFIX + cluster)}
        self.passed_over: set[str] = set()
        # Of these, the ones that are there, and wait until the child of the one before is gone.
        self.anew: set[str] = set()
        # Clusters that are left: the ProviderConfigs that are held by now and that are to be, and
        # whose child may not go yet.
        self.held = provider_config_guard.observed(call)
        self.holds: dict[str, str] = {}
        self.last: list[str] = []
        self.fresh: set[str] = set()
        self.strays: set[str] = set()
        self._ready: dict[str, bool] = {}
        self.answer = Answer()

    def compose(self) -> Answer:
        self.resolve_clusters()
        self.require()
        self.leave_clusters()
        self.rollout = FleetRollout(
            self.call,
            self.plan,
            self.spec,
            sorted(self.staying | self.anew),
            self.labels if self.resolved else None,
            self.anew,
        )
        self.compose_children()
        self.derive_conditions()
        self.write_status()
        self.protect()
        return self.answer

    def require(self) -> None:
        selector = present(self.tier.spec.cluster_selector)
        self.answer.requirements = {
            REQUIRED_CLUSTERS: Requirement(
                names.API_VERSION, "InferenceCluster", labels=dict(selector.match_labels)
            ),
        }
        for name in sorted(self.unselected):
            by_name = Requirement(names.API_VERSION, "InferenceCluster", name=name)
            self.answer.requirements[_cluster_key(name)] = by_name
        # A child that is told to go is observed no more; whether it is gone is to be looked up.
        if self.held:
            self.answer.requirements[REQUIRED_CHILDREN] = Requirement(
                names.API_VERSION,
                "KVOffloadTier",
                namespace=self.tier.namespace,
                labels={names.LABEL_FLEET: self.tier.name},
            )

    def resolve_clusters(self) -> None:
        found = self.call.required_values(REQUIRED_CLUSTERS, *_FOUND)
        self.resolved = found is not None
        there = set(children(self.call))
        named = [row for row in found or () if row[0]]
        self.uids = {name: uid or "" for name, uid, *_ in named}
        self.labels = {name: labels or {} for name, _, _, labels, _ in named}
        self.configs = {name: config or "" for name, *_, config in named}
        self.staying = {
            name
            for name, uid, leaves, *_ in named
            if not leaves and self._stamped_for(name) in ("", uid)
        }
        self.passed_over = {
            _GOES if leaves else _ANEW for name, _, leaves, *_ in named if name not in self.staying
        }
        self.anew = {name for name, _, leaves, *_ in named if not leaves} - self.staying
        if self.resolved and self.tier.spec.removal != "Remove":
            self.unselected = there - self.uids.keys()
            self.kept = {name for name in self.unselected if self._is_kept(name)}
        stay = self.used | self.kept if self.resolved else there
        self.clusters = sorted(self.staying | stay)

    def _is_kept(self, name: str) -> bool:
        """Return whether a cluster that matches no longer is still the one of the child.

        While it is not looked up, it is. A child that is being deleted was told to go.
        """
        if self.call.is_leaving(PREFIX + name):
            return False
        found = self.call.required_values(_cluster_key(name), *_FOUND)
        if found is None:
            return True
        return any(
            not leaves and self._stamped_for(name) in ("", uid) for _, uid, leaves, *_ in found
        )

    def _stamped_for(self, cluster: str) -> str:
        """Return the uid of the cluster that a child was stamped for."""
        if self.call.is_leaving(PREFIX + cluster):
            return ""
        return self.call.observed_value(PREFIX + cluster, *_STAMPED_FOR) or ""

    def leave_clusters(self) -> None:
        """Remove a child once its ProviderConfig is guarded, then the guard once it is gone.

        The guard goes with the fleet: a Usage that core has seen must protect that first.
        """
        going = children(self.call).keys() - set(self.clusters)
        for cluster in going:
            config = self.held.get(cluster) or self.call.observed_value(PREFIX + cluster, *_CONFIG)
            if config:  # else it has nothing on its cluster
                self.holds[cluster] = config
            elif self._is_fresh(cluster):
                self.fresh.add(cluster)  # or has it, and core has yet to write its first status
        guarded = provider_config_guard.in_force(self.call, self.holds)
        if not is_in_use(self.call):
            guarded = set()
        self.last = sorted((self.holds.keys() - guarded) | self.fresh)
        lingering = self._lingering()
        self.holds |= {k: v for k, v in self.held.items() if lingering is None or k in lingering}
        self.answer.resources |= provider_config_guard.compose(self.holds, self.tier.spec.namespace)

    def _is_fresh(self, cluster: str) -> bool:
        """Return whether a child without an answer may have Objects, or may get them any moment.

        Core lists what it composes before it does.
        """
        key = PREFIX + cluster
        kinds = ("Ready", c.CONDITION_ACCEPTED)
        if any(self.call.observed_whole_condition(key, kind) for kind in kinds):
            return False
        made = access.moment(self.call.observed_value(key, *_CREATION))
        is_old = made is not None and self.call.has_passed(made + _LONGEST_START)
        return not is_old or bool(self.call.observed_value(key, *_COMPOSED))

    def _lingering(self) -> set[str] | None:
        """Return the clusters of children that are being deleted; None while unresolved.

        What core looks up may be a moment old: a child that nobody wants, or that is observed no
        more, is taken to be going. Where it never goes, a core that lagged composed it again after
        it went; composed anew, it might be one that goes this moment.
        """
        found = self.call.required_values(REQUIRED_CHILDREN, _CLUSTER, _DELETION, _OWNERS, _NAME)
        if found is None:
            return None
        there = children(self.call)
        stay = there.keys() & set(self.clusters)
        uid = self.call.composite_value("metadata", "uid")
        # An inline tier of the fleet's name is another's.
        own = [row for row in found if access.controller(row[2]) in ("", uid)]
        self.strays = {
            str(name) for cluster, leaves, _, name in own if not (leaves or cluster in there)
        }
        return {cluster for cluster, leaves, *_ in own if leaves or cluster not in stay}

    def compose_children(self) -> None:
        """Compose each child with the fleet's spec where it has its turn, else as it is.

        One whose cluster no longer matches keeps what it has: which overrides apply there is not
        known.
        """
        for cluster in sorted({*self.clusters, *self.last}):
            matches = cluster in self.staying
            stamp = (self.rollout.stamp if matches else self.rollout.observed)(cluster)
            if stamp is None:
                continue
            uid = self._stamped_for(cluster) or self.uids.get(cluster, "")
            # Where the cluster was declared again, the child is still on that before.
            config = self.call.observed_value(PREFIX + cluster, *_CONFIG)
            config = str(config or self.configs.get(cluster) or "")
            manifest = _child(self.tier, cluster, stamp, uid, config, is_auto=self.is_auto)
            self.answer.resources[PREFIX + cluster] = Composed(manifest, self._is_ready(cluster))

    def _is_ready(self, cluster: str) -> bool:
        if cluster not in self._ready:
            ready = tier_names.is_ready_child(self.call, PREFIX + cluster)
            self._ready[cluster] = ready and cluster not in self.anew
        return self._ready[cluster]

    def _cluster_resolved(self) -> Condition:
        """Return whether clusters match; a fleet that only keeps clusters has none."""
        if not self.resolved:
            return Condition(c.CONDITION_CLUSTER, UNKNOWN, c.REASON_RESOLVING)
        said = []
        if not self.staying:
            none = "spec.clusterSelector.matchLabels: no InferenceCluster carries these labels"
            but = f", but ones that {' or '.join(sorted(self.passed_over))}."
            said.append(none + (but if self.passed_over else "."))
        said += [_named(_REDECLARED, self.anew)] if self.anew else []
        leave = set(self.clusters) - self.staying - self.anew - self.kept
        said += [_named(_KEPT, self.kept)] if self.kept else []
        said += [_named(_IN_USE, leave)] if leave else []
        said += [f"{_LEAVING}{', '.join(sorted(self.holds))}."] if self.holds else []
        if self.fresh:
            tiers = children(self.call)
            said.append(_named(_FRESH, {f"KVOffloadTier {tiers[it]}" for it in self.fresh}))
        said += [f"{_STRAY}{', '.join(sorted(self.strays))}."] if self.strays else []
        verdict = (TRUE, c.REASON_RESOLVED) if self.staying else (FALSE, c.REASON_NO_CLUSTERS)
        return Condition(c.CONDITION_CLUSTER, *verdict, " ".join(said))

    def _chosen(self) -> set[str]:
        """Return the clusters that the fleet is judged by: not those that it only keeps."""
        return self.staying | self.anew if self.resolved else set(self.clusters)

    def derive_conditions(self) -> None:
        chosen = self._chosen()
        waiting = [cluster for cluster in sorted(chosen) if not self._is_ready(cluster)]
        if waiting or not chosen:
            message = "Not ready yet on: " + cut(", ".join(waiting), _MOST_NAMES) if waiting else ""
            ready = (FALSE, c.REASON_STARTING if waiting else c.REASON_WAITING, message)
        else:
            ready = (TRUE, c.REASON_READY, f"Ready on all {len(chosen)} clusters.")
        self.answer.conditions = [
            Condition(c.CONDITION_ACCEPTED, TRUE, c.REASON_VALID),
            self._cluster_resolved(),
            Condition(c.CONDITION_CONTROL_PLANE, *ready),
            Condition(c.CONDITION_AGENTS, *ready),
            fleet_rollout_report.condition(self.rollout),
        ]
        if self.tier.spec.observe is None:
            self.answer.conditions += serving.unjudged(self.call)
        else:
            children = {cluster: PREFIX + cluster for cluster in self.clusters}
            self.answer.conditions.append(serving.of_fleet(self.call, children))
        self.answer.ready = self.resolved and bool(self.staying) and not waiting
        rests = self.resolved and self.rollout.decision.state in (State.DONE, State.PAUSED)
        settled = self.answer.ready and not (self.holds or self.fresh) and rests
        self.answer.ttl = TTL_WITH_REQUIREMENTS if settled else TTL_UNSETTLED

    def write_status(self) -> None:
        desired = ready = capacity = 0
        for cluster in self.clusters:
            key = PREFIX + cluster
            agents = self.call.observed_value(key, "status", "agents") or {}
            desired += agents.get("desired", 0)
            ready += agents.get("ready", 0)
            capacity += self.call.observed_value(key, "status", "capacityGiB") or 0
        self.answer.status = {
            "cluster": self._summary(),
            "agents": {"desired": desired, "ready": ready, "summary": f"{ready}/{desired}"},
            "capacityGiB": capacity,
            "consumers": in_use_status(used=bool(self.used)),
            "clusters": self._rows(),
        }
        if rollout := fleet_rollout_report.status(self.rollout):
            self.answer.status["rollout"] = rollout

    def _summary(self) -> str:
        """Return how many of the selected clusters are ready, and how many others are kept."""
        chosen = self._chosen()
        there = sum(1 for cluster in chosen if self._is_ready(cluster))
        kept = len(set(self.clusters) - chosen)
        return f"{there}/{len(chosen)} clusters" + (f", {kept} kept" if kept else "")

    def protect(self) -> None:
        """Compose a Usage of the fleet tier while a child is used, or goes.

        The ProviderConfig's guard would go with the fleet, before the child's Objects.
        """
        place = self.tier.namespace, self.tier.name
        if self.used or self.holds:
            manifest = of_fleet(*place, used=bool(self.used))
            self.answer.resources[FLEET_KEY] = Composed(manifest, True)
        elif is_in_use(self.call) and not self.call.is_observed(FLEET_KEY):
            for key, manifest in lost_usages(self.call, place, self.answer.requirements).items():
                self.answer.resources[key] = Composed(manifest, True)

    def _rows(self) -> list[Json]:
        """Return a row per cluster, as many and as long as a stored tier has room for."""
        shown = self.clusters
        if len(shown) > _MOST_ROWS:
            shown = sorted(shown, key=self._is_ready)[:_MOST_ROWS]
        waiting = sum(1 for cluster in shown if not self._is_ready(cluster))
        room = min(_LONGEST_MESSAGE, _ROOM_FOR_MESSAGES // max(waiting, 1))
        return [self._cluster_status(cluster, room) for cluster in shown]

    def _cluster_status(self, cluster: str, room: int) -> Json:
        key = PREFIX + cluster
        row: Json = {
            "name": cluster,
            "tier": naming.label(self.tier.name, cluster, limit=63),
            "ready": self._is_ready(cluster),
        }
        if not row["ready"]:
            seen = self.call.observed_value(key, "status", "conditions") or []
            old = tier_names.unreconciled(self.call, self.rollout.child(cluster))
            row |= {"message": cut(old, room)} if old else _first_problem(seen, room)
        return row


def _cluster_key(name: str) -> str:
    """Return the name under which a cluster that matches no longer is looked up."""
    return f"cluster/{name}"


def _named(text: str, found: set[str]) -> str:
    number = f"{len(found)} cluster" + ("s" if len(found) > 1 else "")
    return text.format(number=number, names=cut(", ".join(sorted(found)), _MOST_NAMES))


def _first_problem(conditions: list[Json], room: int) -> dict[str, str]:
    """Return reason and message of the first of a child's conditions that is not True."""
    by_type = {entry.get("type"): entry for entry in conditions}
    for kind in c.TIER_CONDITIONS:
        entry = by_type.get(kind, {})
        if entry and entry.get("status") != TRUE:
            message = cut(entry.get("message", ""), room)
            found = {"reason": entry.get("reason", ""), "message": message}
            return {key: value for key, value in found.items() if value}
    return {}
