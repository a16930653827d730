"""What HiCache injects into an engine pod, and which engines it refuses or leaves unwired."""

import json
from typing import Any

import pytest
from packaging.version import Version

from function.backends.hicache import BACKEND
from function.contract import gate
from function.contract.backend import Tier
from function.contract.engine import Engine
from function.contract.injection import Injection
from function.problems import Refused
from kv_offload.docs.reasons import REASONS
from tests.unit.backends.hicache import IDENTITY, cache, pool, sglang, stored, tier, vllm

PLAIN = cache()
FILES = stored("File", sizeGiB=500)
CLAIM = {"claimName": "pages"}
POSIX = stored("NIXL", plugin="POSIX", posix={"claim": CLAIM})
OBJ = {"bucket": "kv-pages"}
OBJECTS = stored("NIXL", {"identity": IDENTITY}, plugin="OBJ", obj=OBJ)
HF3FS = {"claim": CLAIM, "fileSizeGiB": 8, "metadataHost": "meta"}
POOL = stored("Mooncake", storageTierRef={"name": "pool"})
AWAY = {"masterAddress": "m:50051"}
RADIX = "--disaggregation-decode-enable-radix-cache"
OFFLOAD = "--disaggregation-decode-enable-offload-kvcache"
DECODE: dict[str, str | None] = {"--disaggregation-mode": "decode"}
PREFILL: dict[str, str | None] = {"--disaggregation-mode": "prefill"}


def inject(of: Tier, **facts: Any) -> Injection:
    return BACKEND.inject(of, sglang(of, **facts))


def extra(of: Tier, **facts: Any) -> dict[str, Any]:
    """The storage's configuration."""
    text = inject(of, **facts).flags["--hicache-storage-backend-extra-config"]
    found: dict[str, Any] = json.loads(text or "")
    return found


# (flags, pods, ranks of one pod)
RANKS = (
    ({}, 1, 1),
    ({"--tp-size": "8"}, 1, 8),
    ({"--tp-size": "16"}, 2, 8),
    ({"--tp-size": "8", "--pp-size": "2"}, 2, 8),
    ({"--tp-size": "2", "--dp-size": "4"}, 1, 8),
    ({"--tp-size": "8", "--dp-size": "4", "--enable-dp-attention": None}, 1, 8),
    ({"--tp-size": None}, 1, 1),
)


@pytest.mark.parametrize(("flags", "pods", "ranks"), RANKS)
def test_host_memory_is_counted_for_each_rank(flags: dict[str, Any], pods: int, ranks: int) -> None:
    found = inject(PLAIN, flags=flags, pods=pods)
    assert found.memory_bytes == ranks * 100 * 2**30
    by_ratio = cache(host={"ratio": {"percent": 150, "memoryGiB": 120}})
    found = inject(by_ratio, flags=flags, pods=pods)
    assert found.memory_bytes == ranks * 120 * 2**30
    assert (found.flags["--hicache-ratio"], "--hicache-size" in found.flags) == ("1.5", False)
    per_rank = stored("File", sizeGiB=500, claim=CLAIM)
    assert extra(per_rank, flags=flags, pods=pods)["max_size"] * ranks <= 500 * 2**30


# SGLang takes whole GB of 10^9 bytes.
@pytest.mark.parametrize(("gib", "gb"), [(1, "1"), (10, "10"), (100, "107"), (1000, "1073")])
def test_written_size_never_exceeds_the_counted_memory(gib: int, gb: str) -> None:
    found = inject(cache(host={"sizeGiB": gib}))
    assert found.flags["--hicache-size"] == gb
    assert int(gb) * 10**9 <= found.memory_bytes == gib * 2**30


def test_page_size_of_the_user_stays_and_names_the_pages() -> None:
    ours, users = inject(FILES), inject(FILES, flags={"--page-size": "32"})
    assert ours.flags["--page-size"] == "64"
    assert "--page-size" not in users.flags
    assert [one.env[0]["value"].rpartition("/")[2] for one in (ours, users)] == [
        f"{IDENTITY}-page_first-64",
        f"{IDENTITY}-page_first-32",
    ]
    assert extra(POOL, flags={"--page-size": "32"})["extra_backend_tag"] == (
        f"{IDENTITY}-page_first-32"
    )


def test_page_settings_of_the_tier_do_not_change_the_identity() -> None:
    direct = cache(ioBackend="direct", memoryLayout="page_first_direct", pageTokens=128)
    assert BACKEND.assumes(direct, "SGLang") == {
        "--page-size": "128",
        "--hicache-mem-layout": "page_first_direct",
        "--hicache-io-backend": "direct",
    }
    assert BACKEND.assumes(direct, "vLLM") == {}
    flags = inject(direct).flags
    assert {name: flags[name] for name in BACKEND.assumes(direct, "SGLang")} == BACKEND.assumes(
        direct, "SGLang"
    )


def test_engine_uses_the_pool_of_another_tier() -> None:
    found = inject(POOL)
    assert found.labels == {"modelplane.ai/kv-offload": "kv-pool-a9f543daf8"}
    assert extra(POOL)["master_server_address"] == (
        "kv-pool-a9f543daf8-master.kv-offload-system.svc:50051"
    )
    awaited = {
        "kv-offload-await-master": "kv-pool-a9f543daf8-master.kv-offload-system.svc:50051",
        "kv-offload-await-store": "kv-pool-a9f543daf8-store.kv-offload-system.svc",
    }
    assert extra(POOL)["check_server"] is False
    assert found.waits == tuple(
        {"name": name, "addresses": [address], "seconds": 300} for name, address in awaited.items()
    )
    local = pool(
        nodes={"selector": {"pool": "h200"}},
        namespace="kv",
        mooncake={
            "store": {"sizeGiB": 200},
            "metadata": "http",
            "allocationStrategy": "local_first",
            "ports": {"rpc": 40051},
        },
    )
    of = tier(
        {
            "hicache": {
                "host": {"sizeGiB": 1},
                "storage": {"type": "Mooncake", "mooncake": {"storageTierRef": {"name": "pool"}}},
            }
        },
        local,
    )
    assert inject(of).node_selector == {"pool": "h200"}
    assert extra(of)["master_server_address"] == "kv-pool-a9f543daf8-master.kv.svc:40051"
    assert extra(of)["metadata_server"] == "http://kv-pool-a9f543daf8-master.kv.svc:8080/metadata"


# (the consumer's namespace, what the pool takes it for)
@pytest.mark.parametrize(("namespace", "tenant"), [("team-a", "team-a"), ("team-b", "")])
def test_pool_with_tenants_gets_the_namespace_as_tenant(namespace: str, tenant: str) -> None:
    shares = {"quotas": [{"namespace": "team-a", "sizeGiB": 8}], "othersSizeGiB": 4}
    spec = {"mooncake": {"storageTierRef": {"name": "pool"}}, "type": "Mooncake"}
    below = pool(mooncake={"store": {"sizeGiB": 200}, "tenants": shares})
    of = tier({"hicache": {"host": {"sizeGiB": 1}, "storage": spec}}, below)
    assert BACKEND.tenant(of, namespace) == tenant
    assert BACKEND.tenant(cache(), namespace) == ""
    assert extra(of, tenant=tenant) == extra(POOL) | ({"tenant_id": tenant} if tenant else {})
    with pytest.raises(Refused, match=r"SGLang 0\.5\.17"):
        BACKEND.inject(of, sglang(of, version="0.5.16", tenant="team-a"))


# What can be asked before SGLang starts, and what is asked by an init container.
WAITS = (
    (AWAY, 300, False, ("m:50051",)),
    (AWAY, 0, False, ()),
    ({**AWAY, "adminAddress": "m:9003"}, 300, True, ()),
    (
        {"masterAddress": "etcd://a:1;b:2", "adminAddress": "m:9003"},
        60,
        False,
        ("a:1", "b:2"),
    ),
)


@pytest.mark.parametrize(("external", "seconds", "asks", "addresses"), WAITS)
def test_engine_waits_for_a_missing_store(
    external: dict[str, Any], seconds: int, asks: bool, addresses: tuple[str, ...]
) -> None:
    of = stored("Mooncake", {"waitSeconds": seconds}, external=external)
    assert extra(of)["check_server"] is asks
    waits = [
        {"name": "kv-offload-await-store", "addresses": list(addresses), "seconds": seconds}
    ] * bool(addresses)
    assert list(inject(of).waits) == waits


def test_no_credential_in_the_arguments() -> None:
    of = stored(
        "NIXL",
        {"identity": IDENTITY},
        plugin="OBJ",
        obj={**OBJ, "credentials": {"name": "s3", "accessKeyIdKey": "id"}},
    )
    assert inject(of).env == (
        {
            "name": "AWS_ACCESS_KEY_ID",
            "valueFrom": {"secretKeyRef": {"name": "s3", "key": "id"}},
        },
        {
            "name": "AWS_SECRET_ACCESS_KEY",
            "valueFrom": {"secretKeyRef": {"name": "s3", "key": "AWS_SECRET_ACCESS_KEY"}},
        },
    )
    assert set(extra(of)["plugin"]["obj"]) == {
        "active", "bucket", "region", "scheme", "use_virtual_addressing"
    }  # fmt: skip
    assert inject(OBJECTS).env == ()


def test_decode_engine_offloads_when_the_tier_says_so() -> None:
    of = stored("File", sizeGiB=8, claim=CLAIM)
    both = cache(decode="Offload", storage=of.settings.storage.dump())
    decode, prefill = inject(both, flags=DECODE), inject(both, flags=PREFILL)
    assert OFFLOAD in decode.flags
    assert "--enable-hierarchical-cache" not in decode.flags
    assert "--enable-hierarchical-cache" in prefill.flags
    # What one writes the other finds.
    assert decode.env == prefill.env
    with_radix = inject(both, flags={**DECODE, RADIX: None})
    assert "--enable-hierarchical-cache" in with_radix.flags
    assert OFFLOAD not in with_radix.flags


@pytest.mark.parametrize(
    ("phase", "flags", "left"),
    [
        ("Unified", {}, False),
        ("Unified", PREFILL, False),
        ("Unified", DECODE, True),
        ("Decode", {}, True),
        ("Decode", {"--disaggregation-mode": "null"}, False),
        ("Decode", PREFILL, False),
        ("Decode", {**DECODE, RADIX: None}, False),
    ],
)
def test_decode_engine_is_unwired_by_default(phase: str, flags: dict[str, Any], left: bool) -> None:
    if not left:
        assert inject(PLAIN, phase=phase, flags=flags).backend == "HiCache"
        return
    with pytest.raises(Refused) as refused:
        inject(PLAIN, phase=phase, flags=flags)
    assert refused.value.reason == "OutOfScope"
    assert "set its policy to Off" in refused.value.message


OFFLOADS = cache(decode="Offload", storage={"type": "File", "file": {"sizeGiB": 8}})
BUFFERS = cache(
    host={"sizeGiB": 8, "bufferOnly": True},
    storage={"type": "Mooncake", "mooncake": {"external": AWAY}},
)
PIPELINE = {"--pp-size": "2"}
FA3 = {"--decode-attention-backend": "fa3"}
SIMM = stored("Raw", backend="simm")
EIC = stored("Raw", {"identity": IDENTITY}, backend="eic")

REFUSED: tuple[tuple[Tier, dict[str, Any], str, str], ...] = (
    (
        cache(decode="Offload", storage={"type": "Mooncake", "mooncake": {"external": AWAY}}),
        {"flags": DECODE, "version": "0.5.9"},
        "VersionMismatch",
        "0.5.10 is the first",
    ),
    (BUFFERS, {"version": "0.5.18"}, "VersionMismatch", "0.5.19 is the first"),
    (BUFFERS, {"version": None}, "VersionMismatch", "SGLang of an unknown version has no"),
    (PLAIN, {"version": "0.5.13", "flags": FA3}, "ConnectorConflict", "ioBackend direct"),
    (PLAIN, {"version": "0.5.7", "flags": PIPELINE}, "EngineUnsupported", "--pp-size 2"),
    (POOL, {"version": "0.5.7", "flags": PIPELINE}, "EngineUnsupported", "--pp-size 2"),
    (POSIX, {"flags": PIPELINE}, "EngineUnsupported", "different layers under one name"),
    (OBJECTS, {"flags": PIPELINE}, "EngineUnsupported", "Mooncake and File tell them apart"),
    (EIC, {"flags": PIPELINE}, "EngineUnsupported", "--pp-size 2"),
    (FILES, {"pods": 2}, "EngineUnsupported", "spans 2 pods"),
    (POSIX, {"version": "0.5.14"}, "VersionMismatch", "0.5.15 is the first"),
    (
        FILES,
        {"identity": "", "model": "/m"},
        "CacheIdentityConflict",
        "cannot be read from the pod: the model argument",
    ),
    (POOL, {"identity": ""}, "CacheIdentityConflict", "kv-offload-cache-identity"),
    (FILES, {"flags": {"--lora-paths": "a=b"}}, "CacheIdentityConflict", "--lora-paths"),
    (
        stored("NIXL", plugin="OBJ", obj=OBJ),
        {},
        "CacheIdentityConflict",
        f"Set it to {IDENTITY}",
    ),
    (
        stored("HF3FS", {"identity": "ba9876543210"}, **HF3FS),
        {},
        "CacheIdentityConflict",
        f"identity ba9876543210, and this engine's is {IDENTITY}",
    ),
    (stored("Raw", backend="aibrix"), {}, "CacheIdentityConflict", "storage.identity is not set"),
    (FILES, {"env": {"MOONCAKE_MASTER": "m:1"}}, "ConnectorConflict", "MOONCAKE_MASTER"),
    (POOL, {"env": {"MC_FORCE_TCP": "1"}}, "ConnectorConflict", "MC_FORCE_TCP"),
    (PLAIN, {"flags": {"--page-size": "1"}}, "ConnectorConflict", "--page-size 1"),
    (
        stored("Mooncake", external={**AWAY, "version": "0.3.13"}),
        {"image": "own/sglang-mooncake0.3.12:1"},
        "VersionMismatch",
        "has Mooncake 0.3.12, the tier runs 0.3.13",
    ),
)


@pytest.mark.parametrize(("of", "facts", "reason", "words"), REFUSED)
def test_refused(of: Tier, facts: dict[str, Any], reason: str, words: str) -> None:
    with pytest.raises(Refused) as refused:
        inject(of, **facts)
    assert refused.value.reason == reason
    assert reason in REASONS
    assert words in refused.value.message


NOT_REFUSED: tuple[tuple[Tier, dict[str, Any]], ...] = (
    (PLAIN, {"version": "0.5.5"}),
    (PLAIN, {"version": None}),
    (PLAIN, {"identity": ""}),
    (PLAIN, {"flags": {"--lora-paths": "a=b"}}),
    (PLAIN, {"env": {"MOONCAKE_MASTER": "m:1"}}),
    (PLAIN, {"version": "0.5.14", "flags": FA3}),
    (PLAIN, {"flags": PIPELINE}),
    (POOL, {"flags": PIPELINE}),
    (FILES, {"flags": PIPELINE}),
    (FILES, {"flags": {"--pp-size": "1"}, "version": "0.5.14"}),
    (OBJECTS, {"version": "0.5.9"}),
    (stored("File", sizeGiB=8, claim=CLAIM), {"pods": 2}),
    (stored("HF3FS", {"identity": IDENTITY}, **HF3FS), {}),
    (SIMM, {}),
    (EIC, {}),
    (stored("Mooncake", external=AWAY), {"image": "own/sglang-mooncake0.3.12:1"}),
    (
        cache(ioBackend="direct", memoryLayout="page_first_direct"),
        {"version": "0.5.13", "flags": FA3},
    ),
)


@pytest.mark.parametrize(("of", "facts"), NOT_REFUSED)
def test_not_refused(of: Tier, facts: dict[str, Any]) -> None:
    found = inject(of, **facts)
    assert found.backend == "HiCache"
    assert BACKEND.allows.problem(found) == ""


# What is told to engines that are not SGLang.
def test_refusal_of_vllm_names_a_usable_tier() -> None:
    for of, words in (
        (PLAIN, "Use a tier of backend Native, Mooncake or LMCache"),
        (POOL, "Use KVOffloadTier modelplane-system/pool itself, or a tier of backend Native"),
    ):
        with pytest.raises(Refused) as refused:
            BACKEND.gate(of, vllm())
        assert refused.value.reason == "EngineUnsupported"
        assert words in refused.value.message


QUESTIONS: tuple[tuple[Tier, str, Version | None], ...] = (
    (PLAIN, "HiCache", None),
    (FILES, "HiCache/file", None),
    (POSIX, "HiCache/nixl", None),
    (SIMM, "HiCache/simm", None),
    (POOL, "HiCache/mooncake", Version("0.3.13.post1")),
    (stored("Mooncake", external=AWAY), "HiCache/mooncake", None),
    (
        stored("Mooncake", external={**AWAY, "version": "0.3.12"}),
        "HiCache/mooncake",
        Version("0.3.12"),
    ),
)


@pytest.mark.parametrize(("of", "row", "version"), QUESTIONS)
def test_gate_question_names_connector_and_package(
    of: Tier, row: str, version: Version | None
) -> None:
    question = BACKEND.gate(of, sglang())
    assert (question.connector, question.package_version) == (row, version)
    assert gate.versions(question).features
    old = gate.versions(BACKEND.gate(of, Engine("SGLang", "0.5.14"))) if of is PLAIN else None
    assert old is None or "before 0.5.15 SGLang stops" in old.warnings[0]


def _engines(*rows: tuple[dict[str, str | None], str]) -> list[Engine]:
    return [Engine("SGLang", flags=flags, identity=identity) for flags, identity in rows]


def test_decode_and_prefill_need_one_identity() -> None:
    BACKEND.agree(OFFLOADS, _engines((PREFILL, "a"), (DECODE, "a")))
    BACKEND.agree(OFFLOADS, _engines((DECODE, "a")))
    BACKEND.agree(PLAIN, _engines((PREFILL, "a"), ({**DECODE, RADIX: None}, "b")))
    with pytest.raises(Refused) as refused:
        BACKEND.agree(OFFLOADS, _engines((PREFILL, "a"), (DECODE, "b")))
    assert refused.value.reason == "CacheIdentityConflict"
    assert (
        "cache identity is b, the prefill engine's a: prefill finds no page"
        in refused.value.message
    )


NAME = "--served-model-name"
# (prefill's further flags, decode's, whether its pages are found)
SERVED: tuple[tuple[dict[str, str | None], dict[str, str | None], bool], ...] = (
    ({}, {}, True),
    ({NAME: "chat"}, {NAME: "chat"}, True),
    ({NAME: "chat"}, {}, False),
    ({}, {NAME: "m"}, True),  # the model's own
    ({NAME: None}, {NAME: "chat"}, True),  # who knows
)


@pytest.mark.parametrize(("prefill", "decode", "found"), SERVED)
def test_served_model_name_is_part_of_page_names(
    prefill: dict[str, str | None], decode: dict[str, str | None], found: bool
) -> None:
    """SGLang puts it into the names of pages, in every storage."""
    disaggregation = [
        Engine("SGLang", flags={**mode, **flags}, identity="a", model="m")
        for mode, flags in ((PREFILL, prefill), (DECODE, decode))
    ]
    if found:
        BACKEND.agree(OFFLOADS, disaggregation)
        return
    with pytest.raises(Refused, match="--served-model-name") as refused:
        BACKEND.agree(OFFLOADS, disaggregation)
    assert refused.value.reason == "ConnectorConflict"


@pytest.mark.parametrize(
    ("plugins", "version", "refused"),
    [
        ("tracer", "0.5.23", True),
        ("tracer, kv-offload-storages", "0.5.23", False),
        ("tracer", "0.5.14", False),  # before 0.5.15 none is loaded
        (None, "0.5.23", False),
    ],
)
def test_plugins_must_hold_ours(plugins: str | None, version: str, refused: bool) -> None:
    facts = {"env": {"SGLANG_PLUGINS": plugins}, "version": version}
    if not refused:
        inject(FILES, **facts)
        return
    with pytest.raises(Refused, match="SGLANG_PLUGINS is tracer, without kv-offload-storages"):
        inject(FILES, **facts)
