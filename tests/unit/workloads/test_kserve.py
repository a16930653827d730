"""An LLMInferenceService whose command is a preset of KServe's."""

import subprocess
from typing import Any

import pytest

from function import workloads
from function.problems import Refused
from function.workloads.kserve import ADDITIONAL

# As the presets of KServe 0.18 and newer evaluate it.
PRESET = """
show() { printf '%s\\0' "$@"; }
eval "show vllm serve /mnt/models --port 8000 ${VLLM_ADDITIONAL_ARGS} $@"
"""
VALUES = (
    "",
    "--max-num-seqs 8",
    """--kv_transfer_config '{"kv_connector":"NixlConnector","kv_role":"kv_both"}'""",
    """--served-model-name "a b" --override '{"a": ["x*", "{y}"]}'""",
)


def service(container: dict[str, Any], **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "serving.kserve.io/v1alpha2",
        "kind": "LLMInferenceService",
        "metadata": {"name": "chat"},
        "spec": {"model": {"name": "m"}, "template": {"containers": [container]}, **spec},
    }


def main(value: str | None = "", **more: Any) -> dict[str, Any]:
    env = [] if value is None else [{"name": ADDITIONAL, "value": value}]
    return {"name": "main", "image": "x", "env": env, **more}


def evaluated(value: str, args: list[str]) -> list[str]:
    out = subprocess.run(
        ["bash", "-c", PRESET, "--", *args],
        env={ADDITIONAL: value},
        capture_output=True,
        check=True,
    )
    return out.stdout.decode().split("\0")[:-1]


@pytest.mark.parametrize("value", VALUES)
@pytest.mark.parametrize("args", [[], ["--max-model-len", "8192"]])
def test_added_arguments_reach_the_engine(value: str, args: list[str]) -> None:
    manifest = service(main(value, **({"args": args} if args else {})))
    found = workloads.find(manifest)
    assert found is not None
    (template,) = found.templates
    body: dict[str, Any] = dict(template.body)
    (container,) = body["spec"]["containers"]
    script = container["command"][2]
    assert script.endswith(value) and "args" not in container
    added = """ --kv-transfer-config '{"kv_connector":"A","x":{"y":"$z {b,c}"}}'"""
    command = [*container["command"][:2], script + added, "--"]
    changed = {**body, "spec": {"containers": [{**container, "command": command}]}}
    written = workloads.replace(manifest, template, changed)
    (after,) = written["spec"]["template"]["containers"]
    assert "command" not in after and after.get("args", []) == args
    words = evaluated(after["env"][0]["value"], args)
    assert words[-len(args) - 2 :][:2] == [
        "--kv-transfer-config",
        """{"kv_connector":"A","x":{"y":"$z {b,c}"}}""",
    ]
    assert workloads.replace(manifest, template, body) == service(
        main(value.strip(), **({"args": args} if args else {}))
    )


@pytest.mark.parametrize(
    "manifest",
    [
        service(main(None)),
        service(main(command=["vllm", "serve", "m"])),
        service(main(), baseRefs=[{"name": "x"}]),
        service({"name": "main", "env": [{"name": ADDITIONAL, "valueFrom": {}}]}),
        service({**main(), "name": "engine"}),
    ],
)
def test_preset_needs_a_service_that_reads_the_variable(
    manifest: dict[str, Any],
) -> None:
    found = workloads.find(manifest)
    assert found is not None
    (template,) = found.templates
    assert template.body["spec"] == manifest["spec"]["template"]
    assert ADDITIONAL in template.advice


@pytest.mark.parametrize(
    ("manifest", "said"),
    [
        (service(main("", args=["--x", '{"a":1}'])), "evaluates the container's args again"),
        (service(main("--x 1", args=["--x=2"])), "--x is in both"),
        (service(main(), worker={"containers": [main(None)]}), "Only some pods"),
    ],
)
def test_values_that_the_preset_would_change_are_refused(
    manifest: dict[str, Any], said: str
) -> None:
    with pytest.raises(Refused, match=said):
        workloads.find(manifest)


def test_arguments_of_the_preset_stay() -> None:
    manifest = service(main("--x 1"))
    found = workloads.find(manifest)
    assert found is not None
    (template,) = found.templates
    body: dict[str, Any] = dict(template.body)
    (container,) = body["spec"]["containers"]
    command = ["/bin/bash", "-c", "exec vllm serve /other --x 1", "--"]
    changed = {**body, "spec": {"containers": [{**container, "command": command}]}}
    with pytest.raises(Refused, match="cannot be changed here"):
        workloads.replace(manifest, template, changed)
