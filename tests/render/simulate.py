"""What a cluster would hold one pass later: composed resources as their providers leave them.

The rule, by level. `Kept`: observed exactly as desired, without a status (a provider that has not
looked yet). `Created`: every resource exists (uid, resourceVersion, generation); an Object of
provider-kubernetes is Synced and holds the live manifest in `status.atProvider.manifest`, whose
workload has all of its pods scheduled and none ready; nothing is Ready. `Ready`: the same with
every pod ready and updated, the conditions Ready and Synced True on everything.

A workload's counts are its own replicas (1 by default) or, for a DaemonSet, NODES.
"""

import copy
import uuid
from collections.abc import Sequence
from typing import Any

from function.kube.objects import is_object

Document = dict[str, Any]

NODES = 3
LEVELS = ("Kept", "Created", "Ready")
_TIME = "2024-01-01T00:00:00Z"


def observe(composed: Sequence[Document], level: str) -> list[Document]:
    """The composed resources of a pass as the next pass observes them."""
    if level not in LEVELS:
        raise ValueError(f"simulate: {level!r} is not one of {LEVELS}")
    return [_observed(document, level) for document in composed]


def _observed(document: Document, level: str) -> Document:
    out = copy.deepcopy(document)
    if level == "Kept":
        return out
    metadata = out["metadata"]
    metadata["uid"] = str(uuid.uuid5(uuid.NAMESPACE_URL, f"{out['kind']}/{metadata['name']}"))
    metadata |= {"resourceVersion": "1", "generation": 1, "creationTimestamp": _TIME}
    ready = level == "Ready"
    status: Document = {"conditions": _conditions(ready)}
    if is_object(out):
        manifest = copy.deepcopy(out["spec"]["forProvider"]["manifest"])
        counts = _counts(manifest, ready)
        if counts:
            manifest["status"] = counts
        manifest.setdefault("metadata", {})["generation"] = 1
        status["atProvider"] = {"manifest": manifest}
    out["status"] = (out.get("status") or {}) | status
    return out


def _conditions(ready: bool) -> list[Document]:
    reason = "Available" if ready else "Creating"
    return [
        _condition("Synced", "True", "ReconcileSuccess"),
        _condition("Ready", str(ready), reason),
    ]


def _condition(kind: str, status: str, reason: str) -> Document:
    return {"type": kind, "status": status, "reason": reason, "lastTransitionTime": _TIME}


def _counts(manifest: Document, ready: bool) -> Document:
    """The status of a workload; {} for what has no pods."""
    replicas = int((manifest.get("spec") or {}).get("replicas", 1))
    done = replicas if ready else 0
    match manifest.get("kind"):
        case "DaemonSet":
            number = NODES if ready else 0
            return {
                "currentNumberScheduled": NODES,
                "desiredNumberScheduled": NODES,
                "numberAvailable": number,
                "numberMisscheduled": 0,
                "numberReady": number,
                "observedGeneration": 1,
                "updatedNumberScheduled": NODES,
            }
        case "Deployment" | "StatefulSet" | "LeaderWorkerSet":
            return {
                "availableReplicas": done,
                "observedGeneration": 1,
                "readyReplicas": done,
                "replicas": replicas,
                "updatedReplicas": replicas,
            }
        case _:
            return {}
