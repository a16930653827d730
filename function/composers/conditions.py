"""Condition types and reasons of a KVOffloadTier, on one cluster and on a fleet."""

CONDITION_ACCEPTED = "Accepted"
CONDITION_CLUSTER = "ClusterResolved"
CONDITION_CONTROL_PLANE = "ControlPlaneReady"
CONDITION_AGENTS = "AgentsReady"
# Of a fleet alone; its reasons are the states of a rollout (waves.State).
CONDITION_ROLLED_OUT = "RolledOut"
# Of tiers with an observer: no part of being ready.
CONDITION_SERVING = "Serving"

# In the order in which a tier comes up.
TIER_CONDITIONS = (CONDITION_ACCEPTED, CONDITION_CLUSTER, CONDITION_CONTROL_PLANE, CONDITION_AGENTS)

REASON_VALID = "Valid"
REASON_INVALID = "Invalid"
REASON_RESOLVED = "Resolved"
REASON_RESOLVING = "Resolving"
REASON_CLUSTER_NOT_FOUND = "ClusterNotFound"
REASON_NO_PROVIDER_CONFIG = "WaitingForProviderConfig"
REASON_READY = "Ready"
REASON_NONE_NEEDED = "NoneNeeded"
REASON_NO_NODES = "NoMatchingNodes"
REASON_STARTING = "Starting"
REASON_TIMED_OUT = "StartTimedOut"
REASON_UPDATING = "Updating"
REASON_UPDATE_TIMED_OUT = "UpdateTimedOut"
REASON_NOT_APPLIED = "NotApplied"
REASON_NOT_OBSERVED = "NotObserved"
REASON_WAITING = "WaitingForCluster"
REASON_WAITING_FOR_TIER = "WaitingForTier"

REASON_NO_CLUSTERS = "NoMatchingClusters"
