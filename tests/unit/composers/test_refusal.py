"""An invalid composite of any kind is refused with its paths, and keeps what runs."""

from typing import Any

import pytest

from tests.unit.composers import documents as d
from tests.unit.composers.calls import call

ANY = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "runs"}}


def of(kind: str, spec: dict[str, Any]) -> dict[str, Any]:
    meta = {"name": "bad", "namespace": "team-a", "uid": "uid-bad"}
    return {"apiVersion": "modelplane.ai/v1alpha1", "kind": kind, "metadata": meta, "spec": spec}


# (composite, what the message calls it, the path that it names, conditions that are not judged)
REFUSED = (
    (of("InferenceCluster", {"cluster": {"source": "Nope"}}), "cluster", "spec.cluster", set()),
    (of("ModelDeployment", {"engins": []}), "deployment", "spec.engins", set()),
    (
        d.tier(backend="Nope"),
        "tier",
        "spec.backend",
        {"ClusterResolved", "ControlPlaneReady", "AgentsReady"},
    ),
)


@pytest.mark.parametrize("runs", [False, True], ids=["new", "running"])
@pytest.mark.parametrize(
    ("composite", "what", "path", "unknown"), REFUSED, ids=[row[1] for row in REFUSED]
)
def test_invalid_composite_composes_nothing_and_removes_nothing(
    composite, what, path, unknown, runs
) -> None:
    got = call(composite, step_input=d.COMPOSE, observed={"any": ANY} if runs else {})
    message = got.messages["Accepted"]
    assert path in message
    assert got.conditions == {
        "Accepted": ("False", "Invalid"),
        **dict.fromkeys(unknown, ("Unknown", "Invalid")),
    }
    late = f"Not looked at while the {what} is not valid: see Accepted." + (
        " What runs is kept." if runs else ""
    )
    assert {got.messages[kind] for kind in unknown} <= {late}
    assert (got.desired, got.composite_ready) == ({}, "FALSE")
    assert got.fatals == [f"the {what} is not valid; what runs is kept: {message}"] * runs
