"""What Native injects, the memory that it counts, and which engines it refuses."""

import json
from typing import Any

import pytest

from function.api.engines import SGLANG
from function.backends.native import BACKEND
from function.backends.native.connector import BOUNDED_BUCKET, CHECKED_FILES
from function.contract import gate
from function.contract.backend import Tier
from function.contract.engine import Engine
from function.contract.gate import Question
from function.problems import Refused
from kv_offload.docs.reasons import REASONS
from tests.unit.backends.native import BUCKET, FEATURES, FILES, IDENTITY, PEERS, native, vllm

GIB, MIB = 2**30, 2**20
TP8 = {"--tensor-parallel-size": "8"}


def extra(tier: Tier, **facts: Any) -> dict[str, Any]:
    connector = BACKEND.inject(tier, vllm(**facts)).connector
    assert connector is not None
    found: dict[str, Any] = connector["kv_connector_extra_config"]
    return found


def test_generated_tokens_are_stored_if_the_tier_says_so() -> None:
    features = FEATURES | {"offload_prompt_only"}
    assert "offload_prompt_only" not in extra(native(), features=features)
    assert extra(native(generated=True), features=features)["offload_prompt_only"] is False


def test_threads_and_threshold_are_written_where_the_tier_sets_them() -> None:
    files = {**FILES["fileSystem"], "readThreads": 32, "writeThreads": 8}
    (level,) = extra(native({**FILES, "fileSystem": files}))["secondary_tiers"]
    (usual,) = extra(native(FILES))["secondary_tiers"]
    assert level == usual | {"n_read_threads": 32, "n_write_threads": 8}
    assert extra(native(storeThreshold=2)) == extra(native()) | {"store_threshold": 2}


def test_offloading_connector_needs_no_prefix_caching() -> None:
    assert extra(native(), flags={"--no-enable-prefix-caching": None}) == extra(native())


# (spec.native.cpu, flags, pods) -> (GiB of `cpu_bytes_to_use`, GiB and MiB that a pod is raised by)
SIZES: tuple[tuple[dict[str, Any], dict[str, str | None], int, float, float, int], ...] = (
    ({"sizeGiB": 64, "overheadPercent": 0}, {}, 1, 64, 64, 400),
    ({"sizeGiB": 64, "overheadPercent": 0}, TP8, 1, 64, 64, 160 + 8 * 240),
    ({"sizeGiB": 100, "overheadPercent": 92}, {}, 1, 100, 192, 400),
    ({"sizeGiBPerRank": 8, "overheadPercent": 0}, TP8, 1, 64, 64, 160 + 8 * 240),
    # Data parallelism: one region for each engine in the pod.
    (
        {"sizeGiB": 64, "overheadPercent": 0},
        {"--data-parallel-size": "4"},
        1,
        16,
        64,
        160 + 4 * 240,
    ),
    (
        {"sizeGiBPerRank": 8, "overheadPercent": 0},
        {"--data-parallel-size": "4", "--tensor-parallel-size": "2"},
        2,
        16,
        32,
        160 + 4 * 240,
    ),
    (
        {"sizeGiB": 64, "overheadPercent": 0},
        {"--data-parallel-size": "4", "--data-parallel-size-local": "2"},
        2,
        32,
        64,
        160 + 2 * 240,
    ),
    # One workload for each pod of data parallelism.
    (
        {"sizeGiB": 64, "overheadPercent": 0},
        {"--data-parallel-size": "4", "--data-parallel-size-local": "2"},
        1,
        32,
        64,
        160 + 2 * 240,
    ),
    # Ranks of prefill's context parallelism are vLLM's too.
    (
        {"sizeGiBPerRank": 8, "overheadPercent": 0},
        {"--tensor-parallel-size": "2", "--prefill-context-parallel-size": "2"},
        1,
        32,
        32,
        160 + 4 * 240,
    ),
    # Tensor parallelism over two pods: each of them maps the whole region.
    (
        {"sizeGiBPerRank": 8, "overheadPercent": 0},
        {"--tensor-parallel-size": "16"},
        2,
        128,
        128,
        160 + 8 * 240,
    ),
    ({"sizeGiB": 64, "overheadPercent": 0}, {"--tensor-parallel-size": None}, 1, 64, 64, 400),
)


@pytest.mark.parametrize(("cpu", "flags", "pods", "region", "gib", "mib"), SIZES)
def test_memory_of_the_cpu_region(
    cpu: dict[str, Any],
    flags: dict[str, str | None],
    pods: int,
    region: float,
    gib: float,
    mib: int,
) -> None:
    found = BACKEND.inject(native(cpu=cpu), vllm(flags=flags, pods=pods))
    assert found.connector is not None and found.shm is not None
    assert found.connector["kv_connector_extra_config"]["cpu_bytes_to_use"] == region * GIB
    assert (found.shm.bytes, found.shm.host) == (gib * GIB + mib * MIB, False)
    assert found.memory_bytes == 0  # /dev/shm counts as memory already


def test_unset_fields_are_not_written() -> None:
    assert extra(native()) == {"cpu_bytes_to_use": 8 * GIB}
    assert extra(native(evictionPolicy="ARC", blocksPerChunk=16)) == {
        "cpu_bytes_to_use": 8 * GIB,
        "eviction_policy": "arc",
        "blocks_per_chunk": 16,
    }


def test_levels_keep_their_order_and_carry_the_identity() -> None:
    assert extra(native(BUCKET, FILES)) == {
        "cpu_bytes_to_use": 8 * GIB,
        "spec_name": "TieringOffloadingSpec",
        "secondary_tiers": [
            {
                "type": "BoundedBucket",
                "module_path": BOUNDED_BUCKET.name,
                "store_config": {
                    "bucket": "kv",
                    "endpoint_override": "https://s3.example.org",
                    "region": "eu",
                    "scheme": "https",
                },
                "prefix": f"chat-3f9ab/{IDENTITY}",
            },
            {
                "type": "CheckedFiles",
                "module_path": CHECKED_FILES.name,
                "root_dir": f"/mnt/kv-offload/files/chat-3f9ab/{IDENTITY}",
            },
        ],
    }


# (tier, facts of the engine) -> the reason, and what the message says
SHARED = native(FILES)


@pytest.mark.parametrize("levels", [(FILES,), (BUCKET,), (PEERS,), (FILES, BUCKET)])
def test_shared_levels_are_keyed_by_what_the_engine_resolved(levels: tuple[Any, ...]) -> None:
    found = BACKEND.inject(native(*levels), vllm())
    name = (found.connector or {})["kv_connector_module_path"]
    ours = [(FILES, CHECKED_FILES), (BUCKET, BOUNDED_BUCKET)]
    classes = [f"{module.name}.py" for level, module in ours if level in levels]
    assert set(found.files) == {f"{name}.py", *classes}
    assert found.search_paths == {"PYTHONPATH": found.files_path}
    assert BACKEND.allows.problem(found) == ""


@pytest.mark.parametrize(
    ("levels", "features"), [((), FEATURES), ((FILES, BUCKET), FEATURES - {"kv_cache_layout"})]
)
def test_upstreams_class_where_nothing_is_shared_or_known(
    levels: tuple[Any, ...], features: frozenset[str]
) -> None:
    found = BACKEND.inject(native(*levels), vllm(features=features))
    assert "module_path" not in json.dumps(found.connector)
    assert (found.files, found.search_paths) == ({}, {})


REFUSED: dict[str, tuple[Tier, dict[str, Any], str, str]] = {
    "tensor parallelism over pods": (
        SHARED,
        {"flags": {"--tensor-parallel-size": "16"}, "pods": 2},
        "EngineUnsupported",
        "spans 2 pods",
    ),
    "pipeline parallelism over pods": (
        SHARED,
        {"flags": {"--pipeline-parallel-size": "2"}, "pods": 2},
        "EngineUnsupported",
        "spans 2 pods",
    ),
    "another namespace": (
        SHARED,
        {"namespace": "team-b"},
        "PodConflict",
        "volume of namespace default, but the engine's pods are in team-b",
    ),
    "an older vLLM": (
        native(blocksPerChunk=16),
        {"version": "0.25.0", "features": frozenset()},
        "VersionMismatch",
        "needs vLLM 0.26 or newer; this engine is 0.25.0",
    ),
    "an older vLLM, and a bucket": (
        native(BUCKET),
        {"version": "0.25.0", "features": frozenset({"fs"})},
        "VersionMismatch",
        "A level of type Bucket needs vLLM 0.26 or newer; this engine is 0.25.0",
    ),
    "an unknown vLLM": (
        native(blocksPerChunk=16),
        {"version": None, "features": frozenset()},
        "VersionMismatch",
        "of an unknown version",
    ),
    "expandable segments": (
        native(),
        {"env": {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}},
        "ConnectorConflict",
        "PYTORCH_CUDA_ALLOC_CONF sets",
    ),
    "no prefix caching": (
        native(cpu={"sizeGiB": 8}, simple={}),
        {"flags": {"--no-enable-prefix-caching": None}},
        "ConnectorConflict",
        "turns itself off",
    ),
    "generated tokens before 0.23": (
        native(generated=True),
        {"version": "0.22.0", "features": frozenset()},
        "VersionMismatch",
        "spec.native.generated needs vLLM 0.23 or newer; this engine is 0.22.0",
    ),
    "an unknown identity": (
        SHARED,
        {"identity": "", "model": "/mnt/models"},
        "CacheIdentityConflict",
        "cache identity is unknown",
    ),
    "LoRA": (
        SHARED,
        {"flags": {"--enable-lora": None}},
        "CacheIdentityConflict",
        "--enable-lora: block keys",
    ),
    "another seed": (
        SHARED,
        {"env": {"PYTHONHASHSEED": "7"}},
        "ConnectorConflict",
        "PYTHONHASHSEED is 7",
    ),
    "a seed from elsewhere": (
        SHARED,
        {"env": {"PYTHONHASHSEED": None}},
        "ConnectorConflict",
        "PYTHONHASHSEED is not a plain value",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused(case: str) -> None:
    tier, facts, reason, words = REFUSED[case]
    with pytest.raises(Refused) as refused:
        BACKEND.inject(tier, vllm(**facts))
    assert refused.value.reason == reason and reason in REASONS
    assert words in str(refused.value)


# What memory alone takes, and levels that engines share do not; and what goes with both.
@pytest.mark.parametrize(
    ("tier", "facts"),
    (
        (native(), {"flags": {"--tensor-parallel-size": "16"}, "pods": 2}),
        (native(), {"namespace": "team-b"}),
        (native(), {"identity": ""}),
        (native(), {"flags": {"--enable-lora": None}}),
        (native(), {"env": {"PYTHONHASHSEED": "7"}}),
        (SHARED, {"env": {"PYTHONHASHSEED": "0"}}),
        (SHARED, {"flags": {"--data-parallel-size": "2", **TP8}, "pods": 2}),
        (native(BUCKET), {"namespace": "team-b"}),
    ),
)
def test_not_refused(tier: Tier, facts: dict[str, Any]) -> None:
    assert BACKEND.inject(tier, vllm(**facts)).backend == "Native"


def gate_message(tier: Tier, engine: Engine) -> str:
    """What the gate says: a reason, or nothing."""
    try:
        question = BACKEND.gate(tier, engine)
        assert isinstance(question, Question) and question.rows is BACKEND.rows
        gate.check(question)
    except Refused as refused:
        return str(refused.reason)
    return ""


def test_refusal_of_sglang_names_hicache() -> None:
    with pytest.raises(Refused, match=r"this engine is SGLang. Use a tier of backend HiCache"):
        BACKEND.gate(native(), Engine(SGLANG, "0.5.23"))


@pytest.mark.parametrize(
    ("tier", "engine", "said"),
    (
        (native(), vllm(version="0.20.0"), ""),
        (native(), vllm(version=None), ""),
        (native(), vllm(version="0.19.1"), "EngineUnsupported"),
        (native(), Engine(SGLANG, "0.5.23"), "EngineUnsupported"),
        (SHARED, vllm(version="0.23.0"), ""),
        (SHARED, vllm(version="0.22.0"), "EngineUnsupported"),
        (SHARED, vllm(version=None), "VersionMismatch"),
    ),
)
def test_gate_message_by_version(tier: Tier, engine: Engine, said: str) -> None:
    assert gate_message(tier, engine) == said


# (a level, the last vLLM that cannot have it, the first that can)
LEVELS = ((FILES, None, "0.23.0"), (BUCKET, "0.25.0", "0.26.0"), (PEERS, "0.26.0", "0.27.0"))


@pytest.mark.parametrize(("level", "old", "new"), LEVELS)
def test_level_needs_a_version_with_its_keys(
    level: dict[str, Any], old: str | None, new: str
) -> None:
    """0.25's bucket wants its keys in the arguments; peers before 0.27 know no remote_kv_source."""
    of = native(level)

    def wired(version: str) -> None:
        features = gate.check(BACKEND.gate(of, vllm(version=version))).features
        BACKEND.inject(of, vllm(version=version, features=features))

    wired(new)
    if old is not None:
        with pytest.raises(Refused) as refused:
            wired(old)
        assert refused.value.reason == "VersionMismatch"
