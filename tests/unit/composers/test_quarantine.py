"""Quarantine: wrong blocks are left behind by another cache identity, once for each accusation."""

import json
from copy import deepcopy
from dataclasses import replace
from typing import Any

import pytest

from kv_offload.crds.status import KVOffloadTierStatus
from programs.observer.judge import WRONG_BLOCKS, Memory
from programs.observer.report import Engine, report, text
from tests.unit.backends import goldens
from tests.unit.composers import documents as d
from tests.unit.composers.calls import call, observe

KEY = "model-serving-main"
RECORD = "modelplane.ai/kv-offload-record"
SPEC: dict[str, Any] = {
    "observe": {"canary": {"onWrongBlocks": "Quarantine"}},
    "wiring": {"update": "Rolling"},
}
REPORT = SPEC | {"observe": {"canary": {}}}
REQUIRED = {"cluster": [d.cluster()], "usages": []}


def document(*accused: str, well: tuple[str, ...] = ()) -> str:
    """What the observer writes while the canary accuses these models."""
    states = [
        *((model, WRONG_BLOCKS) for model in accused),
        *((model, "Hitting") for model in well),
    ]
    found = [
        Engine("default", f"10.0.0.{n}", "vLLM", model, Memory(state=state))
        for n, (model, state) in enumerate(states)
    ]
    return text(report(found, {}, {}))


def row(name: str, number: int, *, accused: bool = True) -> dict[str, Any]:
    return {"namespace": "default", "name": name, "number": number, "open": accused}


def seen(written: str | None, spec: dict[str, Any]) -> dict[str, Any]:
    found = deepcopy(observe(call(d.tier(**spec), required=REQUIRED)))
    for key, manifest in {
        "configmap-serving": {"data": {"state": written}} if written else {},
        "deployment-observer": {"status": {"readyReplicas": 1}},
    }.items():
        if key in found:
            found[key]["status"]["atProvider"] = {"manifest": manifest}
    return found


# name: what the observer wrote, one after the other (None: nothing) -> the status in the end
OVER_TIME: dict[str, tuple[list[str | None], list[dict[str, Any]] | None]] = {
    "nobody is accused": ([document(well=("m",))], None),
    "accused": ([document("m")], [row("m", 1)]),
    "still accused": ([document("m"), document("m"), document("m")], [row("m", 1)]),
    "accused while nobody sees": ([document("m"), None, document("m")], [row("m", 1)]),
    "cleared": ([document("m"), document(well=("m",))], [row("m", 1, accused=False)]),
    "gone": ([document("m"), document()], [row("m", 1, accused=False)]),
    "accused again": ([document("m"), document(well=("m",)), document("m")], [row("m", 2)]),
    "two models": (
        [document("m"), document("m", "k"), document("k", well=("m",))],
        [row("k", 1), row("m", 1, accused=False)],
    ),
    "an engine without a name": ([document("")], None),
}


@pytest.mark.parametrize("name", OVER_TIME)
def test_a_number_for_each_accusation(name: str) -> None:
    written, want = OVER_TIME[name]
    assert after(written) == want
    assert want is None or KVOffloadTierStatus.model_validate({"quarantine": want})


def after(written: list[str | None], spec: dict[str, Any] = SPEC) -> list[dict[str, Any]] | None:
    """The tier's `status.quarantine` in the end."""
    status: dict[str, Any] = {}
    for each in written:
        tier = d.tier(**spec) | {"status": status}
        status = call(tier, required=REQUIRED, observed=seen(each, spec)).status
    return status.get("quarantine")


def test_reported_alone_unless_asked_for() -> None:
    assert after([document("m")], REPORT) is None


@pytest.mark.parametrize("spec", [REPORT, {}, {"observe": {}}], ids=["report", "none", "observe"])
def test_rows_stay_when_it_is_turned_off(spec: dict[str, Any]) -> None:
    """Without its number an engine would read the old blocks again."""
    rows = [row("m", 2, accused=False)]
    tier = d.tier(**spec) | {"status": {"quarantine": rows}}
    got = call(tier, required=REQUIRED, observed=seen(document("m"), spec))
    assert got.status["quarantine"] == rows


def test_no_more_models_than_the_status_may_hold() -> None:
    rows = [row(f"a{n:02}", 1, accused=False) for n in range(32)]
    tier = d.tier(**SPEC) | {"status": {"quarantine": rows}}
    got = call(tier, required=REQUIRED, observed=seen(document("a01", "m"), SPEC))
    assert got.status["quarantine"] == [rows[0], row("a01", 2), *rows[2:]]
    assert got.conditions["Serving"] == ("False", "WrongBlocks")


def test_the_condition_says_what_is_done() -> None:
    got = call(d.tier(**SPEC), required=REQUIRED, observed=seen(document("m"), SPEC))
    assert got.conditions["Serving"] == ("False", "WrongBlocks")
    assert got.messages["Serving"].endswith(
        "Engines of m in namespace default get another cache identity in turns, and read nothing"
        " that was stored before."
    )


@pytest.mark.parametrize("rows", ["x", [1], [{}], [{"name": "m", "number": "1"}], [row("m", -1)]])
def test_nonsense_in_the_status_is_no_row(rows: Any) -> None:
    tier = d.tier(**SPEC) | {"status": {"quarantine": rows}}
    got = call(tier, required=REQUIRED, observed=seen(document("m"), SPEC))
    assert got.status["quarantine"] == [row("m", 1)]


NATIVE: dict[str, Any] = {"backend": "Native", "lmcache": None, "native": {"cpu": {"sizeGiB": 10}}}
HF3FS: dict[str, Any] = {
    "backend": "HiCache",
    "lmcache": None,
    "hicache": {
        "host": {"sizeGiB": 100},
        "storage": {
            "type": "HF3FS",
            "identity": "0123456789ab",
            "hf3fs": {
                "claim": {"claimName": "threefs"},
                "fileSizeGiB": 1024,
                "metadataHost": "metadata",
            },
        },
    },
}


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ({"observe": SPEC["observe"]}, "set spec.wiring.update to Rolling"),
        (SPEC | NATIVE, "the tier's blocks are in the engines' own pods"),
        (SPEC | HF3FS, "the tier's storage serves one cache identity alone"),
    ],
)
def test_it_needs_turns_and_a_store(spec: dict[str, Any], said: str) -> None:
    got = call(d.tier(**spec), required=REQUIRED)
    assert got.conditions["Accepted"] == ("False", "Invalid")
    assert "spec.observe.canary.onWrongBlocks: " in got.messages["Accepted"]
    assert said in got.messages["Accepted"]


# Consumers ----------------------------------------------------------------------------------------


def identity(*rows: dict[str, Any], **engine: Any) -> str:
    tier = d.ready_tier(**SPEC)
    tier["status"]["quarantine"] = list(rows)
    got = call(d.replica(), desired={KEY: d.engine(**engine)}, required=d.requirements(tier))
    record = json.loads(got.desired[KEY]["metadata"]["annotations"][RECORD])
    (facts,) = record["engines"].values()
    return facts["identity"]


def test_engines_of_the_model_leave_its_blocks_behind() -> None:
    plain = identity()
    first, second = (identity(row(d.MODEL, number)) for number in (1, 2))
    assert len({plain, first, second}) == 3
    others = [row("another", 1), {**row(d.MODEL, 1), "namespace": "elsewhere"}]
    assert identity(*others) == plain
    assert identity(row(d.MODEL, 1, accused=False)) == first


def test_every_name_under_which_it_serves_counts() -> None:
    args = [d.MODEL, "--served-model-name", "chat", "chat-v2"]
    plain = identity(args=args)
    found = [identity(row(name, 1), args=args) for name in (d.MODEL, "chat", "chat-v2")]
    assert plain not in found
    assert identity(row("chat", 1), row("chat-v2", 1), args=args) not in [plain, *found]


def test_engines_move_in_turns() -> None:
    """The turn for an edit before is none for a quarantine: the generation is the same."""
    tier = d.ready_tier(**SPEC)
    tier["metadata"]["generation"] = tier["status"]["observedGeneration"] = 1
    first = call(d.replica(), desired={KEY: d.engine()}, required=d.requirements(tier))
    after = deepcopy(tier)
    after["status"]["quarantine"] = [row(d.MODEL, 1)]

    def again(turns: list[dict[str, Any]]) -> bool:
        """Whether the engine gets another wiring."""
        required = d.requirements(after) | {"turn/modelplane-system/chat": turns}
        got = call(
            d.replica(), desired={KEY: d.engine()}, observed=observe(first), required=required
        )
        return got.desired[KEY]["spec"] != first.desired[KEY]["spec"]

    def turn(edition: str) -> dict[str, Any]:
        return {"metadata": {"annotations": {"modelplane.ai/kv-offload-generation": edition}}}

    assert not again([])
    assert not again([turn("1")])
    assert again([turn("1.1")])


@pytest.mark.parametrize("of", goldens.every(), ids=lambda of: of.backend.name)
def test_the_identity_is_in_what_every_backend_injects(of: goldens.Goldens) -> None:
    for case in of.cases:
        tier = of.of(case)
        described = of.backend.describe(tier)
        if described.one_identity or not described.outlives_pods:
            continue
        for name, engine in of.engines.items():
            one, other = (
                of.backend.inject(tier, replace(engine, identity=each * 12)) for each in "ab"
            )
            assert one != other, f"{case} {name}"
