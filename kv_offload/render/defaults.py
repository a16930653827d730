"""Our own one-step pipeline for a kind, for renders without a Composition."""

from collections.abc import Mapping
from typing import Any

from function.api import input as step_input
from function.names import GROUP
from kv_offload.render.files import InputError

Document = dict[str, Any]

FUNCTION = "function-kv-offload"
_INPUT = {"apiVersion": step_input.API_VERSION, "kind": step_input.KIND}

# Kind of ours -> the Input's mode; None: the tier needs no Input.
_MODES: dict[str, str | None] = {
    "KVOffloadTier": None,
    "InferenceCluster": "Compose",
    "ModelDeployment": "Compose",
}


def composition(xr: Mapping[str, Any]) -> Document:
    """Return the Composition for one of our kinds. Raise InputError for any other."""
    api_version, kind = str(xr.get("apiVersion")), str(xr.get("kind"))
    if api_version.partition("/")[0] != GROUP or kind not in _MODES:
        ours = ", ".join(_MODES)
        raise InputError(
            f"{kind}.{api_version} is not one of our kinds ({ours}): give its COMPOSITION as the"
            " second argument"
        )
    step: Document = {"step": "kv-offload", "functionRef": {"name": FUNCTION}}
    if _MODES[kind] is not None:
        step["input"] = _INPUT | {"mode": _MODES[kind]}
    return {
        "apiVersion": "apiextensions.crossplane.io/v1",
        "kind": "Composition",
        "metadata": {"name": f"{kind.lower()}s.{GROUP}"},
        "spec": {
            "compositeTypeRef": {"apiVersion": api_version, "kind": kind},
            "mode": "Pipeline",
            "pipeline": [step],
        },
    }
