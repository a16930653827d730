"""Say whether engines use a tier's cache: the condition Serving, from the observer's document.

The document comes from a stranger's cluster: whatever has another shape, another word than the
observer's or more bytes than it writes is no document. It holds states and steps, no times, so the
status changes seldom; on core 2.4 each change calls every consumer. What an observer wrote that is
not ready says nothing, a minute later: its probe fails when it no longer sees engines or cannot
write, and a pod that is replaced is soon back.
"""

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from function.api.engines import ENGINES
from function.backends.observer import DEPLOYMENT_KEY, DOCUMENT_KEY
from function.composers import outage, tier_names
from function.composers.conditions import CONDITION_SERVING
from function.composers.tier_plan import TierPlan
from function.contract.backend import OBSERVER
from function.edge.answer import FALSE, TRUE, UNKNOWN, Condition
from function.edge.request import Call
from function.kube import access, objects
from function.kube.access import Json

CONSUMER_CONDITION = "KVOffloadServing"

HITTING, STORING, IDLE = "Hitting", "Storing", "Idle"
NOT_OBSERVED, STARTING, NOT_READY = "NotObserved", "Starting", "ObserverNotReady"
NOT_APPLIED = "NotApplied"
WRONG_BLOCKS = "WrongBlocks"
# What a canary says of a model's engines; "" without a canary.
CANARY_WORDS = frozenset({"", "Compared", "NotCompared", "KeyRequired", "NoAnswer"})

# Seconds for a new pod of the observer.
GRACE = 60

MAX_BYTES = 32 * 1024
MAX_MODELS = 32
_FORMAT = 1
_NAMED, _NAMED_CLUSTERS = 3, 10  # in a message
_COUNT = re.compile(r"0|1|[1-9][0-9]{0,4}\+")
_SHARES = frozenset({"0", "1", "10", "25", "50", "75", "90"})
_NAMESPACE = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_MODEL = re.compile(r"[\w./:@+-]{0,128}", re.ASCII)
_ADDRESS = re.compile(r"[0-9a-f.:]{2,45}")
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", re.ASCII)
_KINDS = frozenset({"", *ENGINES})
_DOCUMENT = (*objects.STATUS_MANIFEST, "data", "state")
_READY = (*objects.STATUS_MANIFEST, "status", "readyReplicas")
_DEPLOYMENT = (*objects.STATUS_MANIFEST, "status", "conditions")

_CANARY_FAILS = {
    "KeyRequired": "its API demands a key, which the canary has not. Remove spec.observe.canary.",
    "NoAnswer": "/v1/completions gives no log-probabilities within a minute. See its log.",
}

# What each bad state means, and what to look at. Counters are those of the engine's /metrics.
_SAID = {
    (WRONG_BLOCKS, ""): (
        "with blocks of the tier it gives other answers than without: users may read wrong text."
        " Take the tier away from its engines (policy Off), keep their logs, and follow"
        " KVOffloadWrongBlocks in docs/runbook.md"
    ),
    ("Failing", ""): (
        "loads or stores fail: see its log, and the tier's agents, masters and stores"
    ),
    ("Silent", "NoLookups"): (
        "it computes prompts and looks none up (vllm:external_prefix_cache_queries_total stands"
        " still): its connector is off. Compare its arguments with the pod template"
    ),
    ("Silent", "PrefixCachingOff"): (
        "prefix caching is off (vllm:cache_config_info), so that nothing is offloaded. Remove"
        " --no-enable-prefix-caching, or what turns it off"
    ),
    ("Silent", "NoWrites"): (
        "it looks prompts up and nothing is ever written. See its log, whether the store is there,"
        " of the same release line and not full, and whether prompts are longer than a chunk"
    ),
    ("Silent", "NoTransfers"): (
        "prompts are computed and nothing is handed from prefill to decode. See whether the router"
        " sends requests through both, and whether prompts are longer than a block"
    ),
    ("NeverRead", ""): (
        "blocks are written and none is found (vllm:external_prefix_cache_hits_total stands still),"
        " although prompts repeat in its own cache. See whether its agent answers (AgentsReady, and"
        " the engine's log), whether the memory is too small for what repeats (evictions), and, of"
        " several engines, whether all have one cache identity."
        " Prompts that share only a short beginning, which never leaves that cache, look the same"
    ),
    ("NeverRead", "HitsStopped"): (
        "it had hits and has none any more, although prompts repeat in its own cache. See what"
        " changed, and whether the store is full or was restarted"
    ),
    ("Unreachable", ""): (
        "its pod is ready and its metrics do not answer at spec.observe.enginePorts. Set them, or"
        " let the observer through the NetworkPolicies of its namespace"
    ),
    ("Unreachable", "NoMetrics"): (
        "it answers without metrics of an engine. SGLang needs --enable-metrics; otherwise correct"
        " spec.observe.enginePorts"
    ),
}
_STATES = frozenset({HITTING, STORING, IDLE, *(state for state, _ in _SAID)})
REASONS = _STATES | {NOT_OBSERVED, STARTING, NOT_READY, NOT_APPLIED}
_GOOD = {
    HITTING: (TRUE, "Engines take blocks from the tier."),
    STORING: (UNKNOWN, "Engines have traffic; nothing was taken from the tier yet."),
    IDLE: (UNKNOWN, "No engine has traffic that could hit."),
}


@dataclass(frozen=True)
class ServedModel:
    """What is known of the engines that serve one model in one namespace of the cluster.

    `at`: the address of one that is in the state. `engines`: how many are, in steps. `canary`: what
    the canary says of them.
    """

    namespace: str
    name: str
    state: str
    kind: str = ""
    cause: str = ""
    at: str = ""
    engines: str = ""
    canary: str = ""

    @property
    def is_bad(self) -> bool:
        return self.state not in _GOOD

    def __str__(self) -> str:
        """Return which engine is meant, what is wrong with it and what to do."""
        model = f"model {self.name}" if self.name else "an unknown model"
        kind = f"{self.kind} " if self.kind else ""
        many = f"{self.engines} {kind}engines, such as"
        who = f"one {kind}engine," if self.engines == "1" else many
        where = f"{model} in namespace {self.namespace}, {who} {self.at}"
        return f"{where}: {_SAID[self.state, self.cause]}."


@dataclass(frozen=True)
class ServingDocument:
    """The observer's document. `hits`, `used`: percentages in steps, "" where nobody knows."""

    state: str
    engines: str
    models: tuple[ServedModel, ...]
    hits: str = ""
    used: str = ""


def parse(text: object) -> ServingDocument | None:
    """Return the document, None for anything that the observer would not have written."""
    if not isinstance(text, str) or len(text) > MAX_BYTES:
        return None
    try:
        found = json.loads(text)
        if not isinstance(found, dict) or found.get("format") != _FORMAT:
            return None
        rows = found["models"]
        if not isinstance(rows, list) or len(rows) > MAX_MODELS:
            return None
        models = tuple(map(_model, rows))
        state = _one_of(found["state"], _STATES)
        engines = _like(found["engines"], _COUNT)
        if state not in _GOOD and not any(model.is_bad for model in models):
            return None
        shares = {name: _one_of(found[name], _SHARES) for name in ("hits", "used") if name in found}
        return ServingDocument(state, engines, models, **shares)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def _model(row: Mapping[str, object]) -> ServedModel:
    """Return a row. Raise ValueError, KeyError or AttributeError."""
    state, cause = _one_of(row["state"], _STATES), str(row.get("cause", ""))
    namespace, name = _like(row["namespace"], _NAMESPACE), _like(row["model"], _MODEL)
    canary = _one_of(row.get("canary", ""), CANARY_WORDS)
    if state in _GOOD:
        return ServedModel(namespace, name, state, canary=canary)
    if (state, cause) not in _SAID:
        raise ValueError(cause)
    kind, at = _one_of(row["kind"], _KINDS), _like(row["at"], _ADDRESS)
    engines = _like(row["engines"], _COUNT)
    return ServedModel(namespace, name, state, kind, cause, at, engines, canary)


def _one_of(value: object, allowed: Iterable[str]) -> str:
    if not isinstance(value, str) or value not in allowed:
        raise ValueError(value)
    return value


def _like(value: object, pattern: re.Pattern[str]) -> str:
    if not isinstance(value, str) or not pattern.fullmatch(value):
        raise ValueError(value)
    return value


@dataclass(frozen=True)
class Serving:
    """What a tier says of its engines. `condition`: None where nothing is to be said.

    `models`: None where nobody knows. `settled`: nothing changes by waiting alone.
    """

    condition: Condition | None
    status: Json | None = None
    models: tuple[ServedModel, ...] | None = None
    settled: bool = True


def unjudged(call: Call, message: str = "", kind: str = CONDITION_SERVING) -> list[Condition]:
    """Return Unknown where the composite has such a condition of before, which core keeps."""
    if not call.composite_condition(kind):
        return []
    return [Condition(kind, UNKNOWN, NOT_OBSERVED, message)]


def of(call: Call, plan: TierPlan, cluster: str) -> Serving:
    """Return what the observer of a tier on one cluster sees."""
    if plan.tier.spec.observe is None:
        said = unjudged(call, "spec.observe is not set: nobody watches the engines.")
        return Serving(said[0] if said else None)
    keys = [part.key for part in plan.parts if part.role == OBSERVER]
    if unseen := outage.not_observed(call, CONDITION_SERVING, keys, cluster):
        return Serving(unseen)
    if message := outage.quoted((key, call.refused_write(key)) for key in keys):
        message += ". The kubeconfig's rights: docs/install.md, Rights on workload clusters."
        return Serving(Condition(CONDITION_SERVING, UNKNOWN, NOT_APPLIED, message))
    text = call.observed_value(DOCUMENT_KEY, *_DOCUMENT)
    ready = call.observed_value(DEPLOYMENT_KEY, *_READY)
    in_grace = ready != 1 and bool(text) and _is_just_gone(call)
    if ready != 1 and not in_grace:
        reason = NOT_READY if text else STARTING
        since = _unavailable_since(call)
        message = (
            f"The observer is not ready{f' since {since}' if since else ''}. See the log of"
            f" deployment {plan.tier.remote_name}-observer in {plan.tier.remote_namespace} on the"
            " workload cluster."
        )
        return Serving(Condition(CONDITION_SERVING, UNKNOWN, reason, message))
    document = parse(text)
    if document is None:
        message = "The observer has written nothing yet, or what it wrote cannot be read."
        return Serving(Condition(CONDITION_SERVING, UNKNOWN, STARTING, message))
    status = _status(document)
    return Serving(_condition(document), status, document.models, settled=not in_grace)


def _unavailable_since(call: Call) -> str:
    """Return since when the observer's Deployment is unavailable, "" where it does not say."""
    conditions = call.observed_value(DEPLOYMENT_KEY, *_DEPLOYMENT)
    found = access.condition({"status": {"conditions": conditions}}, "Available")
    since = access.text(found, "lastTransitionTime")
    return since if found.get("status") == FALSE and _TIME.fullmatch(since) else ""


def _is_just_gone(call: Call) -> bool:
    """Return whether the observer's Deployment has been unavailable for a moment only."""
    since = access.moment(_unavailable_since(call))
    if since is None:
        return False
    is_past = call.has_passed(since - GRACE)  # whatever the cluster's clock says
    return is_past and not call.has_passed(since + GRACE)


def of_fleet(call: Call, children: Mapping[str, str]) -> Condition:
    """Return what the observers of a fleet's clusters say together: {cluster: key of the child}."""
    found = {
        c: call.observed_whole_condition(key, CONDITION_SERVING) for c, key in children.items()
    }
    bad = sorted(c for c, condition in found.items() if condition.get("status") == FALSE)
    if bad:
        message = "Engines do not use the tier on: " + ", ".join(bad[:_NAMED_CLUSTERS])
        if len(bad) > _NAMED_CLUSTERS:
            message += f" and {len(bad) - _NAMED_CLUSTERS} more"
        message += ". See Serving of the tiers there."
        reasons = [access.text(found[cluster], "reason") for cluster in bad]
        reason = WRONG_BLOCKS if WRONG_BLOCKS in reasons else reasons[0]
        return Condition(CONDITION_SERVING, FALSE, reason, message)
    if any(
        condition.get("status") == TRUE
        and call.observed_condition(children[cluster], "Synced") != FALSE
        for cluster, condition in found.items()
    ):
        return Condition(CONDITION_SERVING, TRUE, HITTING, _GOOD[HITTING][1])
    message = "No cluster's observer has seen hits yet. See Serving of the tiers there."
    return Condition(CONDITION_SERVING, UNKNOWN, NOT_OBSERVED, message)


def _condition(document: ServingDocument) -> Condition:
    bad = [model for model in document.models if model.is_bad]
    named = " ".join(map(str, bad[:_NAMED]))
    if len(bad) > _NAMED:
        named += f" {len(bad) - _NAMED} more models: see status.serving.models."
    named = f"{named} {_unanswered(document)}".strip()
    if document.state in _GOOD:
        status, message = _GOOD[document.state]
        message = f"{message} {named}".strip()
        return Condition(CONDITION_SERVING, status, document.state, message)
    return Condition(CONDITION_SERVING, FALSE, document.state, named)


def _unanswered(document: ServingDocument) -> str:
    """Return that the canary gets no answers of a model, and why; "" where it gets them."""
    found = [model for model in document.models if model.canary in _CANARY_FAILS]
    if not found:
        return ""
    first = found[0]
    more = f", and of {len(found) - 1} more" if len(found) > 1 else ""
    return (
        f"The canary compares nothing of model {first.name} in namespace {first.namespace}{more}:"
        f" {_CANARY_FAILS[first.canary]}"
    )


def _status(document: ServingDocument) -> Json:
    found: Json = {
        "state": document.state,
        "engines": document.engines,
        "models": [_model_status(model) for model in document.models],
    }
    shares = {"hits": document.hits, "used": document.used}
    return found | {name: _share(value) for name, value in shares.items() if value}


def _model_status(model: ServedModel) -> Json:
    row = {"namespace": model.namespace, "name": model.name, "state": model.state}
    row |= {"canary": model.canary} if model.canary else {}
    if not model.is_bad:
        return row
    return row | {"message": str(model)}


def _share(step: str) -> str:
    return "0%" if step == "0" else f"{step}%+"


def of_consumer(
    call: Call,
    tier: Json,
    engines: Iterable[tuple[str, Iterable[str]]],
    *,
    runs: Callable[[], bool],
) -> Condition | None:
    """Return KVOffloadServing of a consumer of one tier, None where the tier has no observer.

    `engines`: the namespace of each engine's pods ("" where it is unknown) and the names under
    which it may serve. Only what the tier says of these counts. `runs`: whether all of them are
    ready: the hits of others that serve the same model in that namespace are no hits of theirs.
    """
    if access.at(tier, "spec", "observe") is None:
        return None
    said = access.condition(tier, CONDITION_SERVING)
    rows = access.objects(tier, "status", "serving", "models")
    if said.get("reason") not in _STATES or not (said.get("status") in (TRUE, FALSE) or rows):
        # A refused edit leaves the rows in the status: they are old then.
        reason = said.get("reason") or NOT_OBSERVED
        return Condition(CONSUMER_CONDITION, UNKNOWN, reason, said.get("message", ""))
    asked = [(namespace, frozenset(names)) for namespace, names in engines]
    found = _consumer_condition(
        [
            [
                row
                for row in rows
                if access.text(row, "name") in names
                and namespace in ("", access.text(row, "namespace"))
            ]
            for namespace, names in asked
        ]
    )
    # Known trouble stays in sight.
    if found.status != FALSE and (old := tier_names.unreconciled(call, tier)):
        return Condition(CONSUMER_CONDITION, UNKNOWN, NOT_OBSERVED, old)
    if found.status != TRUE or runs():
        return found
    message = "Its engines are not all ready as wired, so that hits of this model may be another's."
    return Condition(CONSUMER_CONDITION, UNKNOWN, STARTING, message)


def _consumer_condition(engines: list[list[Json]]) -> Condition:
    """Return the condition of the engine that is worst off. `engines`: the rows of each."""
    kind, order = CONSUMER_CONDITION, list(_GOOD)
    # Engines may share a row.
    rows = {id(row): row for found in engines for row in found}.values()
    bad = [row for row in rows if _state(row) not in _GOOD]
    if bad:
        message = " ".join(access.text(row, "message") for row in bad[:_NAMED])
        return Condition(kind, FALSE, _state(bad[0]), message)
    if engines and all(engines):
        best = [min(order.index(_state(row)) for row in found) for found in engines]
        state = order[max(best)]
        return Condition(kind, _GOOD[state][0], state, _GOOD[state][1])
    message = "The tier's observer has seen no ready engine of this model."
    return Condition(kind, UNKNOWN, NOT_OBSERVED, message)


def _state(row: Json) -> str:
    return access.text(row, "state")
