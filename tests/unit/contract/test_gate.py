"""Connector x engine x version -> verdict or refusal, whole."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from packaging.specifiers import SpecifierSet
from packaging.version import Version

from function.api.engines import ENGINES
from function.backends import hierarchy_rows as hicache
from function.contract import gate
from function.contract.advisories import ADVISORIES
from function.contract.engine import Engine
from function.contract.gate import Question, Rows, Verdict
from function.contract.versions import ceiling, known_versions, line, parse, undeclared_versions
from function.engines.vllm import connectors as vllm_connectors
from function.problems import Refused
from kv_offload.docs.backend_rows import gate_rows
from kv_offload.docs.reasons import REASONS

TABLE = tuple(gate_rows())


def cautions(connector: str, engine: str = "SGLang") -> list[str]:
    return [
        caution.message
        for row in TABLE
        if (row.connector, row.engine) == (connector, engine)
        for caution in row.cautions
    ]


POOL_SIZE, HOST_POOL = cautions("HiCache")[0], cautions("HiCache/mooncake")[0]


def warning_of(number: str) -> str:
    """The warning of one advisory."""
    (found,) = (a for a in ADVISORIES if a.id == f"KVO-2026-{number}")
    return found.message.rstrip(". ")


SALT, OTHER_WORDS, NO_HEALTH = warning_of("022"), warning_of("023"), warning_of("024")
SALTED = [OTHER_WORDS, NO_HEALTH]  # of SGLang with LMCache from 0.5.21 on
UNSALTED = [SALT, *SALTED]
NEXT = ceiling("vLLM")  # the line behind the newest release
MP = "LMCacheMPConnector"
TIERING = "OffloadingConnector/TieringOffloadingSpec"
STORE = "MooncakeStoreConnector"


def check(connector: str, engine: Engine, package: str | None) -> Verdict:
    return gate.check(Question(connector, engine, Rows(TABLE), parse(package)))


def abi(torch: str) -> str:
    return (
        f"LMCache 0.5.6 is built for torch 2.13.0 and this engine pins {torch}: LMCache's native "
        "operations do not load, and it stays on slow ones without saying so; use an image that "
        "brings a build of LMCache for its own torch"
    )


DENSE = frozenset({"dense"})
# What engines of older releases are told without it: test_advisories.
PINNED = {"--revision": "5a2c0d1"}


def vllm(version=None, image=""):
    source = "image tag" if version else ""
    return Engine("vLLM", version, image=image, version_source=source, families=DENSE, flags=PINNED)


def sglang(version=None):
    return Engine("SGLang", version, families=DENSE, flags=PINNED)


# What SGLang 0.5.15 has of HiCache, and every newer one.
HICACHE = {hicache.DECODE_OFFLOAD, hicache.DECODE_RADIX, hicache.FA3, hicache.SMALL_POOL}
HICACHE |= {hicache.PLUGINS}
MODULE, HMA = "kv_connector_module_path", "hybrid_memory_allocator"
ALLOWED = [
    (MP, vllm("0.33.0"), "0.5.6", {MODULE, HMA, "isolated_ipc"}, [abi("torch 2.14.0")]),
    (MP, vllm("0.33.0"), "0.5.5", {MODULE, HMA, "isolated_ipc"}, []),
    (MP, vllm("0.33.0"), "0.5.4", {MODULE, HMA}, []),
    (MP, vllm("0.32.0"), "0.5.6", {MODULE, HMA, "isolated_ipc"}, []),
    (MP, vllm("0.27.1"), "0.5.6", {MODULE, HMA, "isolated_ipc"}, []),
    (MP, vllm("0.26.0"), "0.5.6", {MODULE, HMA, "isolated_ipc"}, [abi("torch 2.11.0")]),
    (MP, vllm("0.20.2"), "0.5.5", {MODULE, "isolated_ipc"}, []),
    (MP, vllm("v0.30.0"), None, {MODULE, HMA}, []),
    (MP, vllm("0.30.1.dev3+gabc"), None, {MODULE, HMA}, []),
    (MP, vllm(), "0.5.6", {MODULE, "isolated_ipc"}, []),
    (MP, vllm("latest"), None, {MODULE}, []),
    (MP, vllm("0.31.0+cu129", "lmcache/vllm-openai:v0.5.6-cu129"), "0.5.6",
     {MODULE, HMA, "isolated_ipc"}, []),
    (MP, vllm("0.30.0", "vllm/vllm-openai:v0.30.0-cu129"), "0.5.5", {MODULE, HMA, "isolated_ipc"},
     []),
    ("LMCacheConnectorV1", vllm("0.25.1"), None, set(),
     ["LMCache in the engine's process is deprecated upstream", warning_of("004")]),
    ("OffloadingConnector", vllm("0.20.0"), None,
     {"cpu_bytes_to_use", "eviction_policy", "store_threshold"}, []),
    ("OffloadingConnector", vllm(), None,
     {"cpu_bytes_to_use", "eviction_policy", "store_threshold"}, []),
    (TIERING, vllm("0.24.0"), None, {"fs", "offload_prompt_only", "self_describing_kv_events"}, []),
    (STORE, vllm("0.23.0"), "0.3.8",
     {"preferred_segment", "standalone-store", "load_async"}, []),
    (STORE, vllm("0.28.0"), "0.3.13.post1",
     {"preferred_segment", "standalone-store", "load_async", "cache_prefix", "lookup_async",
      "enable_lookup", "tenant_id"}, []),
    ("NixlConnector", vllm("0.33.0"), None,
     {"kv_lease_duration", "NixlPullConnector", "NixlPushConnector", "telemetry", "sleep mode"},
     ["the engine's image must have nixl 1.5.0 or newer (vLLM 0.32 or newer)"]),
    (MP, sglang("0.5.23"), "0.5.6", {"lmcache_config_file", "lmcache_env"},
     [abi("torch 2.14.1"), *SALTED]),
    (MP, sglang("0.5.21"), "0.5.6", {"lmcache_config_file", "lmcache_env"}, SALTED),
    (MP, sglang("0.5.20"), "0.5.5", {"lmcache_config_file"}, UNSALTED),
    (MP, sglang("0.5.15.post1"), "0.5.6", {"lmcache_config_file"},
     [abi("torch 2.11.0"), *UNSALTED]),
    (MP, sglang(), "0.5.6", {"lmcache_config_file"}, SALTED),
    ("HiCache", sglang(), None, {*HICACHE, hicache.PIPELINE}, []),
    ("HiCache", sglang("0.5.20"), None, {*HICACHE, hicache.PIPELINE, hicache.BUFFER_ONLY}, []),
    ("HiCache", sglang("0.5.5"), None, set(), [POOL_SIZE]),
    ("HiCache", sglang("0.5.10"), None, {hicache.PIPELINE, hicache.DECODE_OFFLOAD},
     [POOL_SIZE]),
    ("HiCache/mooncake", sglang("0.5.16"), "0.3.13", {*HICACHE, hicache.PIPELINE}, []),
    ("HiCache/mooncake", sglang("0.5.18"), "0.3.13", {*HICACHE, hicache.PIPELINE, "tenant_id"}, []),
    ("HiCache/mooncake", sglang("0.5.5"), "0.3.13", set(), [HOST_POOL]),
    ("HiCache/nixl", sglang(), None, {*HICACHE, "use_direct_io", "l3_cleaner_enabled"}, []),
    ("HiCache/nixl", sglang("0.5.9"), None, set(), [POOL_SIZE]),
    ("HiCache/file", sglang("0.5.14"), None,
     {*HICACHE, hicache.PIPELINE, "max_size"} - {hicache.SMALL_POOL, hicache.PLUGINS}, [POOL_SIZE]),
]  # fmt: skip


@pytest.mark.parametrize(("connector", "engine", "backend", "features", "warnings"), ALLOWED)
def test_allowed(connector, engine, backend, features, warnings):
    assert check(connector, engine, backend) == Verdict(tuple(warnings), frozenset(features))


DECLARE = "modelplane.ai/kv-offload-engine-version"
LAST = line("vLLM", known_versions("vLLM")[-1])
REFUSED = [
    (MP, vllm("0.7.3"), None, "EngineUnsupported",
     f"LMCacheMPConnector needs vLLM 0.20 to {LAST}.x, this engine is 0.7.3 (by the image's tag)"),
    (MP, vllm(f"{NEXT}.0"), None, "EngineUnsupported", f"this engine is {NEXT}.0"),
    (MP, vllm(f"{NEXT}.0rc1"), None, "EngineUnsupported", f"this engine is {NEXT}.0rc1"),
    (MP, sglang("0.5.14"), None, "EngineUnsupported", "needs SGLang 0.5.15 to "),
    (MP, sglang("0.5.23"), "0.5.5", "VersionMismatch",
     f"on SGLang 0.5.21 to {known_versions('SGLang')[-1]} needs lmcache 0.5.6 to 0.5.x, the tier "
     "runs 0.5.5"),
    (MP, sglang(), "0.5.5", "VersionMismatch", DECLARE),
    (MP, vllm("0.33.0"), "0.4.4", "VersionMismatch", "needs lmcache 0.5.4 to 0.5.x"),
    (TIERING, vllm("0.22.1"), None, "EngineUnsupported", f"needs vLLM 0.23 to {LAST}.x"),
    (TIERING, vllm(), None, "VersionMismatch", DECLARE),
    (TIERING, vllm("nightly"), None, "VersionMismatch", "version 'nightly' is no version"),
    (STORE, vllm(), None, "VersionMismatch", DECLARE),
    (STORE, vllm("0.28.0"), "0.3.8", "VersionMismatch", "needs mooncake-transfer-engine 0.3.12"),
    ("HiCache/shm", sglang(), None, "VersionMismatch", DECLARE),
    ("HiCache", vllm("0.33.0"), None, "EngineUnsupported", "HiCache does not exist for vLLM"),
    ("HiCache", sglang("0.5.4"), None, "EngineUnsupported", "needs SGLang 0.5.5 to 0.5.23, this"),
    ("HiCache/file", sglang("0.5.13"), None, "EngineUnsupported", "needs SGLang 0.5.14"),
    ("HiCache/nixl", sglang("0.5.8"), None, "EngineUnsupported", "needs SGLang 0.5.9"),
    ("HiCache/mori", sglang("0.5.14"), None, "EngineUnsupported", "needs SGLang 0.5.15"),
    ("HiCache/shm", sglang(), None, "VersionMismatch", "this engine's version is not known"),
    (STORE, sglang("0.5.23"), None, "EngineUnsupported", "does not exist for SGLang"),
    ("LMCacheConnectorV1", vllm("0.26.0"), None, "VersionMismatch",
     "restores wrong blocks on vLLM 0.26 and newer, without an error (KVO-2026-001, LMCache 4463"),
    ("LMCacheConnectorV1", vllm("0.33.0"), None, "VersionMismatch",
     "or vLLM 0.25 in an image with lmcache 0.5. This engine is vLLM 0.33.0 (by the image's tag)."),
    ("LMCacheConnectorV1", vllm(), None, "VersionMismatch", f'{DECLARE}, e.g. "0.25.0"'),
    ("SimpleCPUOffloadConnector", vllm("0.23.0"), None, "VersionMismatch", "KVO-2026-050"),
    ("Nonsense", vllm("0.33.0"), None, "EngineUnsupported", "Nonsense does not exist"),
]  # fmt: skip


@pytest.mark.parametrize(("connector", "engine", "backend", "reason", "message"), REFUSED)
def test_refused(connector, engine, backend, reason, message):
    with pytest.raises(Refused) as found:
        check(connector, engine, backend)
    assert found.value.reason == reason
    assert message in found.value.message


def test_a_version_beyond_the_tables_is_accepted_by_the_input_alone():
    ours, accepted = known_versions("vLLM")[-1], f"{NEXT}.0"
    with pytest.raises(Refused, match=rf"to {LAST}\.x, this engine is {NEXT}\.1"):
        check(MP, Engine("vLLM", f"{NEXT}.1", families=DENSE), "0.5.5")
    verdict = check(MP, Engine("vLLM", f"{NEXT}.1", newest=accepted, families=DENSE), "0.5.5")
    known = check(MP, vllm(ours), "0.5.5")
    assert verdict.features == known.features
    assert verdict.warnings == (
        f"vLLM {NEXT}.1 is newer than {ours}, the newest version that this function knows; "
        "acceptedVersions of the step's Input accepts it",
        *known.warnings,
    )
    with pytest.raises(Refused):
        check(MP, Engine("vLLM", "0.99.0", newest=accepted, families=DENSE), "0.5.5")
    # An older version than the function's newest takes nothing away.
    assert (
        check(MP, Engine("vLLM", ours, newest="0.30.0", families=DENSE, version_source=""), "0.5.5")
        == known
    )


def test_rows_are_complete():
    for row in TABLE:
        assert row.engine in ENGINES and row.source
        assert any(Version(v) in SpecifierSet(row.versions) for v in known_versions(row.engine))
        assert bool(row.package) == bool(row.package_versions)
        for feature in row.features:
            assert SpecifierSet(feature.engine) is not None and feature.source
        for caution in row.cautions:
            assert SpecifierSet(caution.engine) is not None and caution.source
        if row.engine == "vLLM":
            assert row.connector.partition("/")[0] in vllm_connectors.known()
    for engine in ENGINES:
        versions = known_versions(engine)
        for version in map(Version, versions):  # no version is in two rows of a connector
            names = [
                r.connector
                for r in TABLE
                if r.engine == engine and version in SpecifierSet(r.versions)
            ]
            assert len(names) == len(set(names))


connectors = st.sampled_from(sorted({r.connector for r in TABLE}))
versions = st.one_of(
    st.none(),
    st.sampled_from([v for e in ENGINES for v in known_versions(e)]),
    st.text(max_size=8),
    st.builds("{}.{}.{}".format, *[st.integers(0, 60)] * 3),
)


@given(connectors, st.sampled_from(ENGINES), versions, versions)
def test_gate_returns_a_verdict_or_raises_refused(connector, name, version, package):
    try:
        verdict = check(connector, Engine(name, version), package)
    except Refused as refused:
        assert refused.reason in REASONS and refused.message
    else:
        assert all(verdict.warnings)


@given(connectors, st.sampled_from(ENGINES), versions, st.data())
def test_unknown_version_has_only_features_of_all_versions(connector, name, package, data):
    try:
        unknown = check(connector, Engine(name), package)
    except Refused:
        return
    version = data.draw(st.sampled_from(undeclared_versions(name)))
    assert unknown.features <= check(connector, Engine(name, version), package).features
