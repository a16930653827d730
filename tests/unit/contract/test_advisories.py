"""The ledger of known faults: whole, and nothing inside a range is wired without its word."""

from collections.abc import Iterator
from itertools import product
from typing import Any

import pytest
from packaging.specifiers import SpecifierSet
from packaging.version import Version

from function.api.engines import ENGINES
from function.backends.registry import BACKENDS
from function.composers.tier_plan import TierPlan, plan
from function.contract import gate
from function.contract.accelerators.kinds import CUDA, NAMES, Accelerator
from function.contract.advisories import ADVISORIES, GATED, REFUSE, Advisory, Treatment, hits
from function.contract.engine import Engine
from function.contract.models.families import FAMILIES, LAYOUTS
from function.contract.packages import stated
from function.contract.versions import known_versions
from function.edge.structs import encode
from function.problems import Refused
from function.workloads.model import DECODE, PREFILL
from kv_offload.docs.variants import kinds

CAUTION, SETTING = Treatment.CAUTION, Treatment.SETTING
_CPU, _LMCACHE = {"sizeGiB": 1}, {"l1": {"sizeGiB": 1}}
_CLAIM = {"claim": {"storageClassName": "files"}, "sizeGiB": 1}
_BUCKET = {
    "bucket": "blocks",
    "endpoint": "https://s3.example",
    "region": "r",
    "credentialsSecret": {"name": "s"},
}


def _native(**settings: Any) -> dict[str, Any]:
    return {"backend": "Native", "native": settings}


# Tiers with each level and each mode that an advisory names, beside every backend's own kinds.
TIERS: tuple[dict[str, Any], ...] = (
    *(kind.spec for name in BACKENDS.specs for kind in kinds(BACKENDS[name])),
    _native(cpu=_CPU, simple={"lazy": True}),
    _native(cpu=_CPU, secondary=[{"name": "b", "type": "Bucket", "bucket": _BUCKET}]),
    {
        "backend": "HiCache",
        "hicache": {
            "host": {"sizeGiB": 8},
            "storage": {"type": "Raw", "raw": {"backend": "simm"}},
        },
    },
    {
        "backend": "HiCache",
        "hicache": {
            "host": {"sizeGiB": 8},
            "storage": {
                "type": "HF3FS",
                "identity": "0123456789ab",
                "hf3fs": {
                    "claim": {"claimName": "files"},
                    "fileSizeGiB": 8,
                    "metadataHost": "meta",
                },
            },
        },
    },
    {
        "backend": "LMCache",
        "lmcache": {
            "mode": "InProcess",
            "inProcess": {"memoryGiB": 1, "localDisk": {"sizeGiB": 1}},
        },
    },
    *(
        {
            "backend": "LMCache",
            "nodes": {"selector": {"gpu": "true"}},
            "lmcache": {
                **_LMCACHE,
                "ipc": ipc,
                "l2": [
                    {
                        "name": "nvme",
                        "type": "Disk",
                        "disk": {"sizeGiB": 1, "hostPath": {"path": "/mnt/kv"}},
                    }
                ],
            },
        }
        for ipc in ("Isolated", "SharedMemory")
    ),
)
VERSIONS = {
    "lmcache": ("0.4.4", "0.5.0", "0.5.2", "0.5.3", "0.5.4", "0.5.5", "0.5.6"),
    "mooncake": ("0.3.10.post2", "0.3.12", "0.3.13"),
    "nixl": ("1.4.1", "1.5.0", "1.5.1"),
}


def _plans() -> list[TierPlan]:
    found = []
    for tier in TIERS:
        spec = {"inferenceClusterRef": {"name": "any"}, **tier}
        planned = plan("platform", "any", spec, encode(spec), BACKENDS)
        assert isinstance(planned, TierPlan), planned
        found.append(planned)
    return found


PLANS = _plans()


def _within(version: str, spec: str) -> bool:
    return SpecifierSet(spec).contains(Version(version), prereleases=True)


def _engines(advisory: Advisory) -> Iterator[Engine]:
    """Every engine inside the range, by the ledger's own words."""
    ranges = {affected.package: affected.versions for affected in advisory.affected}
    layouts = [frozenset({layout}) for layout in LAYOUTS]
    families = [frozenset(f.split("+")) for f in advisory.families]
    # A use alone is that of a model of any layout.
    families = [
        one | layout for one in families or [frozenset()] for layout in layouts
    ]  # fmt: skip
    accelerators = advisory.accelerators or ("", CUDA)
    held = {
        name: [v for v in versions if _within(v, ranges[name])] if name in ranges else versions[-1:]
        for name, versions in VERSIONS.items()
    }
    others = sorted(advisory.other_connectors) or [""]
    flags = dict((*flag.split("="), "2")[:2] for flag in advisory.flags)
    for name in ENGINES:
        if advisory.engine not in ("", name):
            continue
        versions = [v for v in known_versions(name) if _within(v, ranges.get(name.lower(), ""))]
        for version, family, accelerator, other in product(
            versions, families, accelerators, others
        ):
            for lmcache, nixl in product(held["lmcache"], held["nixl"]):
                yield Engine(
                    name,
                    version,
                    flags=flags,
                    namespace="default",
                    phase=DECODE if "decode" in flags.values() else PREFILL,
                    model="example/model",
                    identity="0123456789ab",
                    families=family,
                    accelerator=Accelerator(accelerator),
                    connectors=frozenset(filter(None, [other])),
                    packages={
                        "lmcache": stated("the test", lmcache),
                        "nixl": stated("the test", nixl),
                        "mooncake": stated("the test", held["mooncake"][-1]),
                    },
                )


def _in_range(advisory: Advisory, question: gate.Question) -> bool:
    names = {question.connector, question.connector.partition("/")[0]}
    return (
        (not advisory.connectors or bool(names & set(advisory.connectors)))
        and (not advisory.levels or bool(advisory.levels & question.levels))
        and (not advisory.modes or question.mode in advisory.modes)
    )


@pytest.mark.parametrize(
    "advisory", [a for a in ADVISORIES if a.action in GATED], ids=lambda a: a.id
)
def test_nothing_in_its_range_is_wired_without_its_word(advisory: Advisory) -> None:
    asked = 0
    for planned in PLANS:
        for engine in _engines(advisory):
            try:
                question = planned.backend.gate(planned.tier, engine)
            except Refused:
                break  # an engine that the backend never serves
            if not _in_range(advisory, question):
                break  # of another connector, level or mode
            asked += 1
            try:
                warnings = gate.check(question).warnings
            except Refused:
                continue
            assert advisory.action is not REFUSE, (question.connector, engine)
            assert any(advisory.id in warning for warning in warnings), (advisory.id, engine)
    assert asked, f"no tier of this test is inside the range of {advisory.id}"


def test_a_refusal_names_the_fault_what_happens_and_what_to_type() -> None:
    engine = Engine("vLLM", "0.33.0", version_source="image tag", families=frozenset({"dense"}))
    found = [a.id for a in hits("LMCacheConnectorV1", engine) if a.action in GATED]
    assert found == ["KVO-2026-001", "KVO-2026-004"]


@pytest.mark.parametrize(("version", "said"), [("0.28.0", True), ("0.29.0", False)])
def test_files_without_a_checksum_are_wired_with_a_caution(version: str, said: bool) -> None:
    engine = Engine("vLLM", version, version_source="image tag", families=frozenset({"dense"}))
    connector, levels = "OffloadingConnector/TieringOffloadingSpec", frozenset({"FileSystem"})
    found = {a.id: a.action for a in hits(connector, engine, levels=levels)}
    assert (found.get("KVO-2026-041") is CAUTION) is said
    assert found.get("KVO-2026-045") is (None if said else SETTING)


_FILES = "OffloadingConnector/TieringOffloadingSpec"


@pytest.mark.parametrize(
    ("connector", "engine", "version", "row"),
    [
        ("MooncakeStoreConnector", "vLLM", "0.23.0", "KVO-2026-126"),
        ("MooncakeStoreConnector", "vLLM", "0.24.0", None),
        (_FILES, "vLLM", "0.28.0", "KVO-2026-127"),
        (_FILES, "vLLM", "0.29.0", None),
        ("HiCache/file", "SGLang", "0.5.14", "KVO-2026-128"),
        ("HiCache/file", "SGLang", "0.5.15", None),
        ("HiCache/hf3fs", "SGLang", "0.5.14", "KVO-2026-128"),
        ("HiCache/hf3fs", "SGLang", "0.5.23", "KVO-2026-129"),
    ],
)
def test_weights_that_may_change_unseen_are_said(
    connector: str, engine: str, version: str, row: str | None
) -> None:
    """Where no class of ours reads the weights, unless their commit is pinned."""
    rows = {"KVO-2026-126", "KVO-2026-127", "KVO-2026-128", "KVO-2026-129"}
    for flags, said in (
        ({}, {row} - {None}),
        ({"--revision": ""}, {row} - {None}),
        ({"--revision": "5a2c0d1"}, set()),
    ):
        asked = Engine(engine, version, version_source="image tag", flags=flags)
        assert {a.id for a in hits(connector, asked)} & rows == said, flags


def test_weights_updated_in_a_running_sglang_are_in_the_ledger() -> None:
    """Its storage keeps the pages of the old weights under the same keys."""
    for connector in ("HiCache/file", "HiCache/mooncake", "HiCache/nixl"):
        found = hits(connector, Engine("SGLang", "0.5.23", version_source="image tag"))
        assert "KVO-2026-123" in {advisory.id for advisory in found}, connector


# What SGLang keeps of a model -> what is done: nothing tells which factors made a key.
LONG_ROPE = {"HiCache/file": REFUSE, "HiCache/mooncake": REFUSE, "LMCacheMPConnector": REFUSE}


@pytest.mark.parametrize("connector", [*LONG_ROPE, "HiCache"])
def test_sglang_keeps_no_blocks_of_longrope_models(connector: str) -> None:
    def found(model: str, engine: str = "SGLang", version: str = "0.5.23") -> dict[str, Treatment]:
        asked = Engine(engine, version, version_source="image tag", model=model)
        rows = {a.id: a.action for a in hits(connector, asked)}
        return {name: rows[name] for name in ("KVO-2026-124", "KVO-2026-125") if name in rows}

    long = found("microsoft/Phi-3-mini-128k-instruct")
    assert max(long.values(), key=[CAUTION, REFUSE].index) is LONG_ROPE.get(connector, CAUTION)
    assert found("microsoft/Phi-3-mini-4k-instruct") == {}
    assert found("microsoft/Phi-3-mini-128k-instruct", "vLLM", "0.33.0") == {}


def test_entries_are_whole() -> None:
    assert len(ADVISORIES) >= 40
    ids = [advisory.id for advisory in ADVISORIES]
    assert len(set(ids)) == len(ids)
    for advisory in ADVISORIES:
        assert advisory.references and advisory.source, advisory.id
        assert not advisory.summary.endswith("."), advisory.id
        assert not advisory.advice.endswith("."), advisory.id
        assert bool(advisory.handled) == (advisory.action not in GATED), advisory.id
        assert advisory.advice or advisory.action is not REFUSE, advisory.id
        assert set(advisory.accelerators) <= set(NAMES), advisory.id
        for together in advisory.families:
            assert set(together.split("+")) <= set(FAMILIES), advisory.id
        engines = {name.lower() for name in ENGINES}
        for affected in advisory.affected:
            assert affected.package in {*engines, *VERSIONS}, advisory.id
            assert affected.package not in engines or affected.package == advisory.engine.lower()
            SpecifierSet(affected.versions)
