"""What holds for every tier that is accepted, and every engine that it wires."""

import json
from dataclasses import replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from function.api.engines import SGLANG
from function.backends.hicache import BACKEND
from function.contract import gate
from function.contract.engine import Engine
from function.contract.recorded import shaped
from function.contract.versions import known_versions
from function.engines.sglang.rules import RULES
from function.problems import Refused
from tests.unit.backends.hicache import IDENTITY, pool, read

_CLAIM = {"claimName": "pages"}
_AWAY = {"masterAddress": "m:50051"}
_IDENTITY = {"identity": IDENTITY}
_STORAGES: list[dict[str, Any] | None] = [
    None,
    {"type": "File", "file": {"sizeGiB": 7}},
    {"type": "File", "file": {"sizeGiB": 7, "claim": _CLAIM}},
    {"type": "Mooncake", "mooncake": {"storageTierRef": {"name": "pool"}}},
    {"type": "Mooncake", "mooncake": {"external": _AWAY}},
    {"type": "NIXL", "nixl": {"plugin": "POSIX", "posix": {"claim": _CLAIM}}},
    {"type": "NIXL", "nixl": {"plugin": "OBJ", "obj": {"bucket": "kv-pages"}}, **_IDENTITY},
    {
        "type": "HF3FS",
        "hf3fs": {"claim": _CLAIM, "fileSizeGiB": 8, "metadataHost": "m"},
        **_IDENTITY,
    },
    {"type": "Raw", "raw": {"backend": "simm"}},
]
_SPEC = st.fixed_dictionaries(
    {
        "host": st.fixed_dictionaries(
            {"sizeGiB": st.integers(1, 4096), "bufferOnly": st.booleans()}
        ),
        "writePolicy": st.sampled_from(["write_through", "write_through_selective", "write_back"]),
        "ioBackend": st.sampled_from(["kernel", "direct"]),
        "memoryLayout": st.sampled_from(["layer_first", "page_first", "page_first_direct"]),
        "pageTokens": st.sampled_from([16, 64, 128]),
        "decode": st.sampled_from(["Leave", "Offload"]),
        "storage": st.sampled_from(_STORAGES),
    }
)
_VERSIONS = st.sampled_from([None, *known_versions(SGLANG)])
_FLAGS = st.fixed_dictionaries(
    {},
    optional={
        "--tp-size": st.sampled_from(["1", "8"]),
        "--pp-size": st.sampled_from(["1", "2"]),
        "--page-size": st.sampled_from(["1", "32", "64"]),
        "--disaggregation-mode": st.sampled_from(["prefill", "decode", "null"]),
        "--disaggregation-decode-enable-radix-cache": st.none(),
        "--decode-attention-backend": st.sampled_from(["fa3", "flashinfer"]),
        "--lora-paths": st.just("a=b"),
    },
)
# What SGLang changes without a word, or does not do at all.
_SILENT = [rule for rule in RULES if "becomes" in rule.about or "does nothing" in rule.about]


@given(_SPEC, _FLAGS, _VERSIONS, st.sampled_from([IDENTITY, ""]))
@settings(max_examples=400, deadline=None)
def test_accepted_tier_wires_engines_safely(
    hicache: dict[str, Any], flags: dict[str, str | None], version: str | None, identity: str
) -> None:
    found, problems = read({"hicache": hicache})
    if found is None:
        assert all(problem.message for problem in problems)
        return
    tier = replace(found, needed={need.name: pool() for need in BACKEND.needs(found)})
    assert BACKEND.problems(tier) == []
    engine = Engine(SGLANG, version=version, identity=identity, flags=flags)
    try:
        verdict = gate.check(BACKEND.gate(tier, engine))
        injection = BACKEND.inject(tier, replace(engine, features=verdict.features))
    except Refused as refused:
        assert refused.message
        return
    assert BACKEND.allows.problem(injection) == ""
    assert shaped(json.loads(json.dumps(injection.to_json()))) == injection
    after = {**flags, **injection.flags}
    assert [rule.about for rule in _SILENT if rule.holds(after)] == []
    # No size is left to SGLang, and the pod's memory holds what is written.
    assert int(after["--hicache-size"] or "") * 10**9 <= injection.memory_bytes
    assert after["--page-size"] not in (None, "1")
    stored = "--hicache-storage-backend" in after
    assert stored == (hicache["storage"] is not None)
    if stored and not {"identity", "raw"} & set(hicache["storage"]):
        # Whatever tells pages apart is in the key, or in the directory.
        said = json.dumps([injection.flags, list(injection.env)])
        assert f"{identity}-{hicache['memoryLayout']}-{after['--page-size']}" in said
