"""The shape of pod templates: the first field that wiring could not rely on, and why."""

from typing import Any

import pytest

from function.workloads import pod_shape

CONTAINER: dict[str, Any] = {"name": "engine", "image": "i"}


def pod(**container: Any) -> dict[str, Any]:
    return {"spec": {"containers": [CONTAINER | container]}}


FIELD = "spec.containers[0]"
# name: (template, path, problem)
SHAPES: dict[str, tuple[Any, str, str]] = {
    "valid": (pod(env=[{"name": "A", "value": 1}], command=None), "", ""),
    "labels of any scalar": ({"metadata": {"labels": {"a": 1}}, **pod()}, "", ""),
    "nothing": (None, "", "This field is required."),
    "no object": ([], "", "This is not an object."),
    "no containers": ({"spec": {}}, "spec.containers", "This field is required."),
    "null container": (
        {"spec": {"containers": [None]}}, FIELD, "This field is required."
    ),
    "env that is no list": (pod(env={"A": "1"}), f"{FIELD}.env", "This is not a list."),
    "env without a name": (
        pod(env=[{"value": "1"}]), f"{FIELD}.env[0].name", "This field is required."
    ),
    "image that is no string": (pod(image=1), f"{FIELD}.image", "This is not a string."),
    "value that is an object": (
        pod(env=[{"name": "A", "value": {}}]), f"{FIELD}.env[0].value",
        "This is not a plain value.",
    ),
    "limit that is a list": (
        pod(resources={"limits": {"memory": []}}), f"{FIELD}.resources.limits.memory",
        "This is not a plain value.",
    ),
    "null among strings": (
        pod(securityContext={"capabilities": {"add": [None]}}),
        f"{FIELD}.securityContext.capabilities.add[0]", "This field is required.",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", SHAPES)
def test_first_shape_problem_is_reported(name: str) -> None:
    template, path, problem = SHAPES[name]
    assert pod_shape.find_template_problem(template) == (path, problem)
