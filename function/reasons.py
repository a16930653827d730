"""The closed list of reasons: why a consumer is or is not wired.

They are the reasons of the `KVOffloadReady` condition and the `reason` label of the metrics.
kv_offload/docs/reasons.yaml explains each.
"""

from enum import StrEnum


class Reason(StrEnum):
    """Why a consumer is or is not wired: the reason of its condition `KVOffloadReady`."""

    WIRED = "Wired"
    NOT_APPLIED = "NotApplied"
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
