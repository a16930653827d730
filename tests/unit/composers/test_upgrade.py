"""A tier whose backend refuses to be changed under its consumers."""

from typing import Any

import pytest

from tests.unit.composers import documents as d
from tests.unit.composers.calls import Outcome, call, observe

USAGE = {
    "kind": "Usage",
    "metadata": {"namespace": "team-a"},
    "spec": {"by": {"kind": "ModelReplica", "resourceRef": {"name": "qwen"}}},
}


def mooncake(version: str, policy: str = "RollingUpdate") -> dict[str, Any]:
    return d.tier(
        backend="Mooncake",
        lmcache=None,
        image={"tag": version},
        upgradePolicy={"type": policy},
        mooncake={"store": {"sizeGiB": 8}},
    )


def change(to: dict[str, Any], usages: list[Any] | None) -> tuple[Outcome, Outcome]:
    """(the call before, the call that asks for the change). `usages`: None while unresolved."""
    required: dict[str, Any] = {"cluster": [d.cluster()], "usages": usages or []}
    before = call(mooncake("0.3.13"), required=required)
    if usages is None:
        del required["usages"]
    return before, call(to, required=required, observed=observe(before))


# name: (the tier to be, its consumers, is it refused?)
CHANGES: dict[str, tuple[dict[str, Any], list[Any] | None, bool]] = {
    "another line, in use": (mooncake("0.3.14"), [USAGE], True),
    "another line, nobody there": (mooncake("0.3.14"), [], False),
    "another line, nobody looked up yet": (mooncake("0.3.14"), None, False),
    "another line, on purpose": (mooncake("0.3.14", "Recreate"), [USAGE], False),
    "the same line": (mooncake("0.3.13.post1"), [USAGE], False),
    "a backend that does not mind": (d.tier(image={"tag": "v0.5.5"}), [USAGE], False),
}


@pytest.mark.parametrize("name", CHANGES)
def test_release_line_in_use_changes_only_with_recreate(name: str) -> None:
    to, usages, refused = CHANGES[name]
    _, after = change(to, usages)
    assert bool(after.fatals) == refused
    assert after.conditions["Accepted"][0] == ("False" if refused else "True")
    is_judged = mooncake("0.3.14") == to
    assert ("usages" in after.requirements) == is_judged, "only an edit asks who the users are"
    if refused:
        assert "spec.image: would replace Mooncake 0.3.13" in after.messages["Accepted"]
        assert "upgradePolicy.type to Recreate" in after.messages["Accepted"]
        assert after.desired == {}  # core keeps what runs: the answer is a fatal one
    else:
        assert after.desired


def test_recreate_replaces_all_pods_at_once() -> None:
    _, after = change(mooncake("0.3.14", "Recreate"), [USAGE])
    manifest = after.desired["daemonset-store"]["spec"]["forProvider"]["manifest"]
    assert manifest["spec"]["updateStrategy"]["rollingUpdate"] == {"maxUnavailable": "100%"}
