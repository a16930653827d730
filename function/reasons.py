"""The closed list of reasons: why a consumer is or is not wired, and what to do.

The one table behind the `KVOffloadReady` condition, the metrics' `reason` label and the
documentation page `docs/reasons.md`, which is generated from it.
"""

from dataclasses import dataclass
from enum import StrEnum


class Reason(StrEnum):
    """Why a consumer is or is not wired: the reason of its condition `KVOffloadReady`."""

    WIRED = "Wired"
    TIER_UNRESOLVED = "TierUnresolved"
    TIER_NOT_FOUND = "TierNotFound"
    TIER_NOT_READY = "TierNotReady"
    INVALID_TIER = "InvalidTier"
    NAMESPACE_NOT_ALLOWED = "NamespaceNotAllowed"
    CLUSTER_MISMATCH = "ClusterMismatch"
    NODE_MISMATCH = "NodeMismatch"
    ENGINE_UNKNOWN = "EngineUnknown"
    ENGINE_CONTAINER_MISSING = "EngineContainerMissing"
    ENGINE_UNSUPPORTED = "EngineUnsupported"
    VERSION_MISMATCH = "VersionMismatch"
    CONNECTOR_CONFLICT = "ConnectorConflict"
    CACHE_IDENTITY_CONFLICT = "CacheIdentityConflict"
    ARGS_NOT_PATCHABLE = "ArgsNotPatchable"
    CREDENTIAL_IN_ARGV = "CredentialInArgv"
    SHARED_MEMORY_TOO_SMALL = "SharedMemoryTooSmall"
    POD_CONFLICT = "PodConflict"
    TIER_CONFLICT = "TierConflict"
    OUT_OF_SCOPE = "OutOfScope"
    NOTHING_TO_WIRE = "NothingToWire"
    INVALID_INPUT = "InvalidInput"
    REQUEST_IGNORED = "RequestIgnored"
    TURNED_OFF = "TurnedOff"
    UNWIRED = "Unwired"
    NOT_REQUESTED = "NotRequested"
    NOT_REPORTED = "NotReported"
    INTERNAL_ERROR = "InternalError"


class Policy(StrEnum):
    """How strictly a workload needs its tier."""

    REQUIRED = "Required"
    OPTIONAL = "Optional"
    OFF = "Off"


class Pods(StrEnum):
    """What becomes, for a reason, of pods that were never created before."""

    WIRED = "wired"  # they carry the tier's wiring
    UNWIRED = "unwired"  # they run without it
    HELD = "held back"  # under `policy: Required` their first creation waits


@dataclass(frozen=True)
class Explanation:
    """`name` is the condition's reason; `meaning`, `fix` and `example` are for people.

    `ready` is the status of the `KVOffloadReady` condition that goes with it; `pods` says what
    becomes of pods that were never created before (pods once wired stay wired, whatever happens).
    """

    name: Reason
    meaning: str
    fix: str
    example: str = ""
    ready: bool = False
    pods: Pods = Pods.HELD


_TABLE: tuple[Explanation, ...] = (
    Explanation(
        Reason.WIRED,
        "The engine pods carry the wiring of the tier, and the tier is ready on their cluster.",
        "Nothing to do.",
        "wired to modelplane-system/chat (LMCache) on gke-h200-prod; shares blocks with 2 others "
        "of cache identity 3f9ab2c41d07",
        ready=True,
        pods=Pods.WIRED,
    ),
    Explanation(
        Reason.TIER_UNRESOLVED,
        "Crossplane has not yet answered the request for the tier, so nothing is known about it.",
        "Nothing to do: it is asked again within seconds. If it stays, the function lacks the "
        "permission to read KVOffloadTiers, or Crossplane is older than 1.15 for required "
        "resources.",
        "waiting for Crossplane to look up KVOffloadTier modelplane-system/chat",
    ),
    Explanation(
        Reason.TIER_NOT_FOUND,
        "No KVOffloadTier of that name exists in that namespace, and no child of a fleet tier of "
        "that name.",
        "Create the tier, or correct the name in the annotation modelplane.ai/kv-offload-tier "
        "([NAMESPACE/]NAME; the namespace defaults to modelplane-system).",
        "no KVOffloadTier modelplane-system/chatt",
    ),
    Explanation(
        Reason.TIER_NOT_READY,
        "The tier exists on the pods' cluster but cannot serve yet: its control plane or its "
        "agents are not ready.",
        "Wait, or look at the tier's own conditions. With policy Optional the pods are created "
        "unwired instead of being held back.",
        "tier modelplane-system/chat: AgentsReady is False: 3 of 8 agents are ready",
    ),
    Explanation(
        Reason.INVALID_TIER,
        "The tier's own spec is refused (its condition Accepted is False), so nothing can be wired "
        "to it.",
        "Correct the tier; its condition Accepted names every field that is wrong.",
        "tier modelplane-system/chat is not accepted: spec.lmcache.l1.sizeGiB: must be at least 1",
    ),
    Explanation(
        Reason.NAMESPACE_NOT_ALLOWED,
        "The tier does not admit consumers of this namespace.",
        "Ask the owner of the tier to add the namespace to spec.allowedNamespaces.",
        "tier modelplane-system/chat admits the namespaces team-a, team-b, not team-c",
    ),
    Explanation(
        Reason.CLUSTER_MISMATCH,
        "The tier is not on the cluster on which the pods run; KV blocks do not cross clusters.",
        "Name a tier of that cluster, or extend the fleet tier's clusterSelector to it.",
        "the pods run on eks-a100-dev, tier modelplane-system/chat is on gke-h200-prod",
    ),
    Explanation(
        Reason.NODE_MISMATCH,
        "The tier has its agents on certain nodes, and the pods' own node selector or affinity "
        "excludes all of them.",
        "Drop the contradicting selector, or widen spec.nodes.selector of the tier.",
        "the tier's agents need cloud.google.com/gke-nodepool=h200, the pod's nodeSelector has "
        "cloud.google.com/gke-nodepool=a100",
    ),
    Explanation(
        Reason.ENGINE_UNKNOWN,
        "Nothing says which engine the pod runs: no declaration, the command does not prove it, "
        "and the image is not in the table engineImages.",
        "Declare it by the annotation modelplane.ai/kv-offload-engine: vLLM or SGLang, or add the "
        "image to engineImages in the step's Input.",
        "container engine: image registry.example/llm/serve:7 is in no engineImages table and its "
        "argv names no engine",
    ),
    Explanation(
        Reason.ENGINE_CONTAINER_MISSING,
        "The pod template has no container that serves the model, or several that might.",
        "Name the container `engine`, or name it in the step's Input.",
        "3 containers, none named engine or main, none with a vLLM or SGLang command line: a, b, c",
    ),
    Explanation(
        Reason.ENGINE_UNSUPPORTED,
        "The tier's backend cannot serve this engine, or not in this form (its version range, a "
        "gang over several pods, tensor or data parallelism, speculative decoding, ...).",
        "Use another engine version or another tier; docs/versions.md lists what goes together.",
        "LMCacheMPConnector needs vLLM >=0.20, this engine is vLLM 0.7.3 (image tag)",
    ),
    Explanation(
        Reason.VERSION_MISMATCH,
        "The versions of engine and backend do not go together, or the version is unknown and "
        "the answer depends on it.",
        "Declare the engine's version by the annotation modelplane.ai/kv-offload-engine-version, "
        "or bring both to versions that docs/versions.md lists together.",
        "the image tag latest is no version, and LMCacheMPConnector needs to know it: set the "
        'annotation modelplane.ai/kv-offload-engine-version, e.g. "0.33.0"',
    ),
    Explanation(
        Reason.CONNECTOR_CONFLICT,
        "The user's own connector or flags and the tier's cannot stand side by side.",
        "Remove the one that the message names, or make the values equal; docs/connectors.md has "
        "the table.",
        "--kv-transfer-config has OffloadingConnector, the tier brings SimpleCPUOffloadConnector: "
        "both keep blocks in the pod's host memory; remove one",
    ),
    Explanation(
        Reason.CACHE_IDENTITY_CONFLICT,
        "Nothing would keep the engine from reading blocks of other weights, or of another cache "
        "layout, with no error: what stands behind its model argument is not known, or the keys of "
        "its blocks have no place for that. Or a decode engine stores blocks that its prefill "
        "engine never finds.",
        "Declare modelplane.ai/kv-offload-cache-identity, the same only where weights and layout "
        "are. For adapters, another store or a prefill and decode pair, do what the message says.",
        "what stands behind the model argument (/mnt/models) is not known, and without it engines "
        "with other weights under one name would read each other's blocks",
    ),
    Explanation(
        Reason.ARGS_NOT_PATCHABLE,
        "The engine's command line cannot be read, or not be changed with a proof that nothing "
        "else changes.",
        "Put $KV_OFFLOAD_ARGS, unquoted, where the engine's flags stand in the script (it is set "
        "by env), or add the words that the message prints by hand.",
        'word 4 of vllm serve, "$EXTRA_ARGS", may hold any flag, also a --kv-transfer-config that '
        "ours would replace without a word",
    ),
    Explanation(
        Reason.CREDENTIAL_IN_ARGV,
        "The backend takes a credential only on the command line, where every process of the node "
        "and every reader of the pod can see it.",
        "Use a backend or a mode that takes it from a Secret (environment or file).",
        "kv_connector_extra_config.secondary_tiers[0].store_config.secret_key would stand in the "
        "pod's args",
    ),
    Explanation(
        Reason.SHARED_MEMORY_TOO_SMALL,
        "The pod's own /dev/shm is smaller than what the connector keeps there.",
        "Raise the sizeLimit of the volume, or remove it, and the tier sizes it.",
        "/dev/shm is the volume dshm with sizeLimit 1Gi, OffloadingConnector needs 104Gi",
    ),
    Explanation(
        Reason.POD_CONFLICT,
        "The pod already has an env variable, volume, mount, claim or port of that name with "
        "another meaning.",
        "Rename or remove the user's one; the message has both values.",
        "env MOONCAKE_CONFIG_PATH is /etc/mine.json, the tier needs /etc/kv-offload/mooncake.json",
    ),
    Explanation(
        Reason.TIER_CONFLICT,
        "The pod templates of one gang name different tiers or policies.",
        "Put the annotation on one member, or the same value on all.",
        "leader names modelplane-system/chat, worker names modelplane-system/batch",
    ),
    Explanation(
        Reason.OUT_OF_SCOPE,
        "The workload manages its own KV offload (Dynamo KVBM, NIM, Triton, TGI) or is no engine "
        "we wire.",
        "Remove the annotation; the workload is left alone.",
        "container main runs dynamo.vllm with DYN_KVBM_CPU_CACHE_GB: KVBM manages its own cache",
        pods=Pods.UNWIRED,
    ),
    Explanation(
        Reason.NOTHING_TO_WIRE,
        "The composite names a tier, but desires no workload with an engine.",
        "Check that the wiring step comes after the step that composes the workloads, and that "
        "`paths` in the Input points at the pod templates.",
        "no pod template in 4 desired resources: ConfigMap, Service, HTTPRoute, Gateway",
        pods=Pods.UNWIRED,
    ),
    Explanation(
        Reason.INVALID_INPUT,
        "The step's Input, or an annotation or field of the consumer, has a value that is not "
        "allowed.",
        "Correct the value that the message names.",
        "annotation modelplane.ai/kv-offload-policy: Maybe is not one of Required, Optional, Off",
    ),
    Explanation(
        Reason.REQUEST_IGNORED,
        "A key of ours is misspelled, or stands where nobody reads it: on the workload or the "
        "composite instead of the pod template, or in a workload of a kind that is not known.",
        "Write it as the message says; for a kind that is not known, name its pod templates under "
        "`paths` in the step's Input.",
        "serving-workload: modelplane.ai/kv-offload-tier under metadata.annotations does nothing: "
        "write it on the pod template, under metadata.annotations.",
        pods=Pods.UNWIRED,
    ),
    Explanation(
        Reason.TURNED_OFF,
        "policy is Off: the pods run without the tier on purpose.",
        "Set the policy to Required or Optional, or remove it, to wire them again.",
        "policy Off: the pods run without tier modelplane-system/chat",
        pods=Pods.UNWIRED,
    ),
    Explanation(
        Reason.UNWIRED,
        "policy is Optional and the tier was not ready when the pods were first created, so they "
        "were created without it.",
        "Change the pod template, or re-create the workload, once the tier is ready.",
        "created without tier modelplane-system/chat, which was TierNotReady then",
        pods=Pods.UNWIRED,
    ),
    Explanation(
        Reason.NOT_REQUESTED,
        "Nothing of the composite names a tier any more; its pods are as their author wrote them.",
        "Nothing to do, or annotate the pod template with modelplane.ai/kv-offload-tier.",
        "serving-workload: It names no tier any more.",
        pods=Pods.UNWIRED,
    ),
    Explanation(
        Reason.NOT_REPORTED,
        "On a ModelDeployment: a replica names a tier and says nothing of it. It has just been "
        "made, or the step that wires does not run in the Composition of ModelReplicas.",
        "Wait some seconds; if it stays, add the step to the Composition of ModelReplicas "
        "(kv-offload add-step), and ask kv-offload doctor whether it runs.",
        "1 of 2 replicas are wired. qwen-1: It says nothing of the tier that it names.",
        pods=Pods.UNWIRED,
    ),
    Explanation(
        Reason.INTERNAL_ERROR,
        "The function failed on this workload with an error of its own. What runs stays, and the "
        "composite's other workloads go on.",
        "Look for the traceback in the function's log, under the composite's name, and report it.",
        "serving-workload: The function has a bug on this workload (KeyError); its log has the "
        "traceback: please report it.",
    ),
)

REASONS: dict[Reason, Explanation] = {row.name: row for row in _TABLE}
