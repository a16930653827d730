"""The message behind each reason, made by running the function on a small input."""

from collections.abc import Callable
from copy import deepcopy
from typing import Any
from unittest import mock

from function.engines.plan import no_credentials
from function.pods import wire
from function.problems import Refused
from function.reasons import Reason
from tests.unit.composers import documents as d
from tests.unit.composers import test_deployment_report as reports
from tests.unit.composers.calls import Outcome, call, observe

Document = dict[str, Any]

KEY = "main"
CONDITION = "KVOffloadReady"
TIER, POLICY = "modelplane.ai/kv-offload-tier", "modelplane.ai/kv-offload-policy"
NATIVE: Document = {"backend": "Native", "lmcache": None, "native": {"cpu": {"sizeGiB": 100}}}
DISK: Document = {**NATIVE, "native": {"simple": {"disk": {"sizeGiBPerRank": 100}}}}
POOL: Document = {
    "backend": "Mooncake",
    "lmcache": None,
    "mooncake": {"protocol": "tcp", "store": {"sizeGiB": 10}},
}


def _pod(
    container: Document | None = None, spec: Document | None = None, **engine: Any
) -> Document:
    """Return an engine's Object; `container` and `spec` replace fields of its pod."""
    found = d.engine(**engine)
    pod = d.wired_pod(found)["spec"]
    pod["containers"][0] |= container or {}
    pod |= spec or {}
    return found


def _consume(
    engine: Document, required: dict[str, list[Document]] | None = None, **tier: Any
) -> Outcome:
    required = d.requirements(d.ready_tier(**tier)) if required is None else required
    return call(d.replica(), desired={KEY: engine}, required=required)


def _policy(policy: str) -> dict[str, str]:
    return {TIER: "chat", POLICY: policy}


def _misplaced() -> Outcome:
    found = d.engine({})
    manifest = found["spec"]["forProvider"]["manifest"]
    manifest["metadata"]["annotations"] = {TIER: "chat"}
    return _consume(found)


def _two_tiers() -> Outcome:
    """Return what is said of a leader and a worker that name different tiers."""
    found = d.engine()
    deployment = found["spec"]["forProvider"]["manifest"]
    leader = deployment["spec"].pop("template")
    worker = deepcopy(leader)
    worker["metadata"]["annotations"] = {TIER: "batch"}
    found["spec"]["forProvider"]["manifest"] = {
        "apiVersion": "leaderworkerset.x-k8s.io/v1",
        "kind": "LeaderWorkerSet",
        "metadata": deployment["metadata"],
        "spec": {
            "leaderWorkerTemplate": {"size": 2, "leaderTemplate": leader, "workerTemplate": worker}
        },
    }
    return _consume(found)


def _denied() -> Outcome:
    """Return what is said of a new wiring that the cluster refuses."""
    first = _consume(_pod())
    seen = observe(first)
    denied = {
        "type": "Synced",
        "status": "False",
        "reason": "ReconcileError",
        "observedGeneration": 2,
        "message": 'update failed: deployments.apps "qwen" is forbidden: exceeded quota: gpus',
    }
    seen[KEY]["status"]["conditions"].append(denied)
    seen[KEY]["status"]["atProvider"] = {"manifest": d.engine()["spec"]["forProvider"]["manifest"]}
    required = d.requirements(d.ready_tier())
    return call(d.replica(), desired={KEY: _pod()}, observed=seen, required=required)


def _unwired() -> Outcome:
    engine = d.engine(_policy("Optional"))
    first = _consume(engine, d.requirements(d.unready_tier()))
    return call(
        d.replica(),
        desired={KEY: engine},
        observed=observe(first),
        required=d.requirements(d.ready_tier()),
    )


def _not_requested() -> Outcome:
    before = {"conditions": [{"type": CONDITION, "status": "True", "reason": "Wired"}]}
    return call({**d.replica(), "status": before}, desired={KEY: d.engine({})})


def _bug() -> Outcome:
    with mock.patch.object(wire, "wire", side_effect=KeyError("x")):
        return _consume(_pod(args=["org/never-wired-elsewhere"]))  # a wiring is remembered


def _credential() -> str:
    store = {"store_config": {"secret_key": "s3cr3t"}}
    try:
        no_credentials({"secondary_tiers": [store]}, "--kv-transfer-config")
    except Refused as refused:
        return str(refused)
    raise AssertionError("a credential passed")


def _script(script: str) -> Document:
    return _pod({"command": ["sh", "-c", script], "args": []})


_CONTAINERS = [{"name": name, "image": d.IMAGE} for name in ("a", "b")]
_SHM = {"name": "dshm", "emptyDir": {"medium": "Memory", "sizeLimit": "1Gi"}}
_MODEL = {"name": "model", "mountPath": "/mnt/models"}

# Reason -> what makes its message: a call of the function, or the place that refuses.
EXAMPLES: dict[Reason, Callable[[], Outcome | str]] = {
    Reason.WIRED: lambda: _consume(_pod()),
    Reason.NOT_APPLIED: _denied,
    Reason.TIER_UNRESOLVED: lambda: _consume(_pod(), {}),
    Reason.TIER_NOT_FOUND: lambda: _consume(
        _pod(annotations={TIER: "chatt"}), d.requirements(name="chatt")
    ),
    Reason.TIER_NOT_READY: lambda: _consume(_pod(), d.requirements(d.unready_tier())),
    Reason.INVALID_TIER: lambda: _consume(_pod(), d.requirements(d.refused_tier())),
    Reason.NAMESPACE_NOT_ALLOWED: lambda: _consume(_pod(), allowedNamespaces={"from": "Same"}),
    Reason.CLUSTER_MISMATCH: lambda: _consume(
        _pod(), provider_config="eu", inferenceClusterRef={"name": "eu"}
    ),
    Reason.NODE_MISMATCH: lambda: _consume(
        _pod(spec={"nodeSelector": {"gpu": "a100"}}), nodes={"selector": {"gpu": "h200"}}
    ),
    Reason.ENGINE_UNKNOWN: lambda: _consume(_pod({"image": "registry.example/serve:7"})),
    Reason.ENGINE_CONTAINER_MISSING: lambda: _consume(_pod(spec={"containers": _CONTAINERS})),
    Reason.ENGINE_UNSUPPORTED: lambda: _consume(d.sglang_engine(), **NATIVE),
    Reason.VERSION_MISMATCH: lambda: _consume(_pod({"image": "vllm/vllm-openai:v0.28.0"}), **DISK),
    Reason.CONNECTOR_CONFLICT: lambda: _consume(_pod(args=[d.MODEL, "--kv-offloading-size", "10"])),
    Reason.CACHE_IDENTITY_CONFLICT: lambda: _consume(
        _pod(
            {"volumeMounts": [_MODEL]},
            {"volumes": [{"name": "model", "emptyDir": {}}]},
            args=["/mnt/models"],
        )
    ),
    Reason.ARGS_NOT_PATCHABLE: lambda: _consume(_script("exec vllm serve org/model $EXTRA_ARGS")),
    Reason.CREDENTIAL_IN_ARGV: _credential,
    Reason.SHARED_MEMORY_TOO_SMALL: lambda: _consume(_pod(spec={"volumes": [_SHM]}), **NATIVE),
    Reason.POD_CONFLICT: lambda: _consume(
        _pod(
            {
                "image": "vllm/vllm-openai:v0.33.0",
                "env": [{"name": "MOONCAKE_CONFIG_PATH", "value": "/etc/mine.json"}],
            }
        ),
        **POOL,
    ),
    Reason.TIER_CONFLICT: _two_tiers,
    Reason.OUT_OF_SCOPE: lambda: _consume(
        _pod({"env": [{"name": "DYN_KVBM_CPU_CACHE_GB", "value": "64"}]})
    ),
    Reason.NOTHING_TO_WIRE: lambda: call(d.replica(kvOffloadTierRef={"name": "chat"}), desired={}),
    Reason.INVALID_INPUT: lambda: _consume(_pod(annotations=_policy("false"))),
    Reason.REQUEST_IGNORED: _misplaced,
    Reason.TURNED_OFF: lambda: _consume(_pod(annotations=_policy("Off"))),
    Reason.UNWIRED: _unwired,
    Reason.NOT_REQUESTED: _not_requested,
    Reason.NOT_REPORTED: lambda: reports.report({"qwen-0": reports.WIRED, "qwen-1": None}),
    Reason.INTERNAL_ERROR: _bug,
}


def example(reason: Reason) -> str:
    """Return the message behind `reason`; fails where the function gives another reason."""
    made = EXAMPLES[reason]()
    if isinstance(made, str):
        return made
    got, message = made.conditions[CONDITION][1], made.messages[CONDITION]
    assert got == reason, f"{reason}: the function says {got}: {message}"
    return message
