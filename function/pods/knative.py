"""What Knative must be told to allow in a wired pod: KServe's InferenceServices in its mode.

Knative's webhook rejects such a pod template, or drops a field of it. Its settings are on the
workload cluster, where no function looks: they are noted, and nothing is refused.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from function.facts import Table
from function.kube import access
from function.kube.access import Json

KIND = "InferenceService"
_MODE = "serving.kserve.io/deploymentMode"
_OTHER_MODES = frozenset({"RawDeployment", "Standard", "ModelMesh", "ModelMeshDeployment"})


@dataclass(frozen=True)
class KnativeField:
    """One field; the file says what its fields mean."""

    path: str
    source: str
    flag: str = ""


FIELDS = Table(KnativeField, "knative", "fields")


def notes(manifest: Json, before: Mapping[str, Any], after: Mapping[str, Any]) -> tuple[str, ...]:
    """Return a note where wiring a pod template adds what Knative takes only by a feature flag.

    `manifest`: of KIND, KServe's or another project's.
    """
    kserve = str(manifest.get("apiVersion")).startswith("serving.kserve.io/")
    mode = access.text(manifest, "metadata", "annotations", _MODE)
    if not kserve or mode in _OTHER_MODES:
        return ()
    added = [field for field in FIELDS if _count(after, field.path) > _count(before, field.path)]
    flags = list(dict.fromkeys(field.flag for field in added if field.flag))
    never = [field.path for field in added if not field.flag]
    where = f"{_MODE} is {mode}" if mode else f"without {_MODE}, KServe may run this by Knative"
    found = []
    if flags:
        found.append(
            f"{where}: Knative takes what was added only with {', '.join(flags)} enabled in "
            "ConfigMap config-features of namespace knative-serving"
        )
    if never:
        found.append(
            f"{where}: Knative takes no {', '.join(never)} as added here; set {_MODE} to "
            "RawDeployment (Standard in newer KServe), or use another tier"
        )
    return tuple(found)


def _count(document: Any, path: str) -> int:
    return sum(1 for _ in _values(document, path.split(".")))


def _values(document: Any, steps: list[str]) -> Iterator[Any]:
    """Yield what there is at a path, for each item of a list."""
    if isinstance(document, list):
        for item in document:
            yield from _values(item, steps)
    elif not steps:
        if document:
            yield document
    elif isinstance(document, Mapping) and steps[0] in document:
        yield from _values(document[steps[0]], steps[1:])
