"""SGLang: words -> effective flags, words and an Injection -> edited words."""

import pytest

from function.contract.injection import Injection
from function.engines.registry import kind
from function.problems import Refused
from tests.unit.engines.helpers import apply, engine, expansion, planned, sglang

ENGINE = engine("SGLang", "0.5.23")
HICACHE = Injection(
    "HiCache",
    flags={
        "--enable-hierarchical-cache": None,
        "--hicache-size": "100",
        "--hicache-storage-backend": "mooncake",
        "--page-size": "64",
    },
)
LMCACHE = Injection("LMCache", flags={"--enable-lmcache": None, "--page-size": "64"})
RADIX = "--disaggregation-decode-enable-radix-cache"

READ = [
    ("plain", ["--model-path", "m", "--tp-size", "8"], {"--model-path": "m", "--tp-size": "8"}),
    (
        "aliases",
        ["--model=m", "--tensor-parallel-size=8", "--enable-hicache"],
        {"--model-path": "m", "--tp-size": "8", "--enable-hierarchical-cache": None},
    ),
    ("abbreviation", ["--tp", "8", "--page-si", "64"], {"--tp-size": "8", "--page-size": "64"}),
    ("last one wins", ["--page-size", "1", "--page-size=64"], {"--page-size": "64"}),
    ("underscores are no flag of SGLang's", ["--page_size", "64"], {"--page_size": "64"}),
    ("no dotted keys", ["--a.b", "c"], {"--a.b": "c"}),
    (
        "switches",
        ["--enable-metrics", "--trust-remote-code"],
        {"--enable-metrics": None, "--trust-remote-code": None},
    ),
    ("unknown value", ["--page-size", expansion("$P")], {"--page-size": None}),
]


@pytest.mark.parametrize(("words", "want"), [c[1:] for c in READ], ids=[c[0] for c in READ])
def test_flags_are_read(words, want):
    assert kind("SGLang").read(sglang(*words)) == want


def test_positional_model_of_sglang_serve():
    call = sglang("m", "--page-size", "64", positional_model=True)
    assert kind("SGLang").read(call) == {"--model-path": "m", "--page-size": "64"}
    call = sglang(expansion("$MODEL"), positional_model=True)
    assert kind("SGLang").read(call) == {"--model-path": None}
    assert apply(call, planned(call, ENGINE, LMCACHE).edits())[0] == "$MODEL"


def test_last_of_a_switch_and_its_negation_wins():
    words = ["--enable-tf32-matmul", "--no-enable-tf32-matmul"]
    assert kind("SGLang").read(sglang(*words)) == {"--no-enable-tf32-matmul": None}


ALL = [
    "--enable-hierarchical-cache",
    "--hicache-size",
    "100",
    "--hicache-storage-backend",
    "mooncake",
    "--page-size",
    "64",
]
EDITS = [
    ("none yet", HICACHE, ["--model", "m"], ["--model", "m", *ALL]),
    ("all there", HICACHE, ALL, ALL),
    ("by alias", HICACHE, ["--enable-hicache", "--page-size=64"],
     ["--enable-hicache", "--page-size=64", *ALL[1:5]]),
    ("prefill", HICACHE, ["--disaggregation-mode", "prefill"],
     ["--disaggregation-mode", "prefill", *ALL]),
    ("decode with its radix cache", HICACHE, ["--disaggregation-mode", "decode", RADIX],
     ["--disaggregation-mode", "decode", RADIX, *ALL]),
    ("LMCache", LMCACHE, [], ["--enable-lmcache", "--page-size", "64"]),
    ("nothing to inject", Injection("x"), ["--config", "f"], ["--config", "f"]),
]  # fmt: skip


@pytest.mark.parametrize(("injection", "words", "want"), [c[1:] for c in EDITS],
                         ids=[c[0] for c in EDITS])  # fmt: skip
def test_edits(injection, words, want):
    call = sglang(*words)
    assert apply(call, planned(call, ENGINE, injection).edits()) == want
    assert planned(sglang(*want), ENGINE, injection).edits() == []


REFUSED = [
    ("radix off", HICACHE, ["--disable-radix-cache"], "ConnectorConflict",
     "--disable-radix-cache turns off what"),
    ("radix off, what to do", HICACHE, ["--disable-radix-cache"], "ConnectorConflict",
     "change the pod's own flags, or name another tier"),
    ("radix off, LMCache", LMCACHE, ["--disable-radix-cache"], "ConnectorConflict",
     "--enable-lmcache does not go with --disable-radix-cache"),
    ("both caches", HICACHE, ["--enable-lmcache"], "ConnectorConflict", "exclude each other"),
    ("both caches, reversed", LMCACHE, ["--enable-hicache"], "ConnectorConflict",
     "exclude each other"),
    ("LMCache, P/D", LMCACHE, ["--disaggregation-mode=prefill"], "ConnectorConflict",
     "does not go with --disaggregation-mode"),
    ("LMCache, speculative", LMCACHE, ["--speculative-algorithm", "EAGLE"], "ConnectorConflict",
     "speculative decoding"),
    ("LMCache, DP attention", LMCACHE, ["--enable-dp-attention"], "ConnectorConflict",
     "DP attention"),
    ("LMCache, DP attention, newer flag", LMCACHE, ["--attn-dp-size", "2"], "ConnectorConflict",
     "DP attention"),
    ("LMCache, DCP", LMCACHE, ["--decode-context-parallel-size=2"], "ConnectorConflict",
     "--dcp-size above 1"),
    ("decode without its radix cache", HICACHE, ["--disaggregation-mode", "decode"],
     "ConnectorConflict", f"{RADIX}; add it"),
    ("another page size", HICACHE, ["--page-size", "1"], "ConnectorConflict",
     "the user has --page-size 1, the tier needs --page-size 64"),
    ("another storage", HICACHE, ["--hicache-storage-backend", "file"], "ConnectorConflict",
     "the user has --hicache-storage-backend file"),
    ("ratio overridden by size", HICACHE, ["--hicache-ratio", "3"], "ConnectorConflict",
     "would override it; remove --hicache-ratio"),
    ("buffer_only without storage",
     Injection("x", flags={"--enable-hierarchical-cache": None, "--page-size": "64"}),
     ["--hicache-host-memory-mode", "buffer_only"], "ConnectorConflict", "needs a --hicache-stor"),
    ("fraction", HICACHE, ["--hicache-host-memory-fraction", "1.5"], "ConnectorConflict",
     "must be above 0 and at most 1"),
    ("negative size",
     Injection("x", flags={"--enable-hierarchical-cache": None, "--page-size": "64"}),
     ["--hicache-size", "-5"], "ConnectorConflict", "is negative"),
    ("ratio below 1",
     Injection("x", flags={"--enable-hierarchical-cache": None, "--page-size": "64"}),
     ["--hicache-ratio", "0.5"], "ConnectorConflict", "below 1"),
    ("storage without the cache", Injection("x", flags={"--page-size": "64"}),
     ["--hicache-storage-backend", "file"], "ConnectorConflict", "does nothing without"),
    ("decode offload in prefill", HICACHE,
     ["--disaggregation-mode", "prefill", "--disaggregation-decode-enable-offload-kvcache"],
     "ConnectorConflict", "needs --disaggregation-mode decode"),
    ("size overrides ratio",
     Injection("x", flags={"--enable-hierarchical-cache": None, "--hicache-ratio": "2.0"}),
     ["--hicache-size", "50"], "ConnectorConflict", "remove --hicache-size"),
    ("external linker", HICACHE, ["--enable-unified-cache-external-linker"], "ConnectorConflict",
     "takes the place of"),
    ("sharded pools", HICACHE, ["--enable-kv-cache-sharding"], "ConnectorConflict",
     "the storage writes whole pages"),
    ("no host level on decode", HICACHE,
     ["--disaggregation-mode", "decode", RADIX, "--hicache-host-memory-mode=buffer_only"],
     "ConnectorConflict", "does not go with a decode engine"),
    ("no host level and DCP", HICACHE,
     ["--hicache-host-memory-mode=buffer_only", "--dcp-size=2"], "ConnectorConflict",
     "buffer_only does not go with --dcp-size"),
    ("prefill_complete", HICACHE,
     ["--disaggregation-mode=prefill", "--disaggregation-decode-allocation-policy",
      "prefill_complete"], "ConnectorConflict", "write_back only"),
    ("two host pools on decode",
     Injection("x", flags={"--hicache-storage-backend": "file",
                           "--disaggregation-decode-enable-offload-kvcache": None}),
     ["--disaggregation-mode=decode", "--disaggregation-decode-retraction-backup=host_pool"],
     "ConnectorConflict", "each make a host pool"),
    ("pages and n-grams", HICACHE, ["--speculative-algorithm", "NGRAM"], "ConnectorConflict",
     "on --attention-backend flashinfer only"),
    ("diffusion", HICACHE, ["--dllm-algorithm", "LowConfidence"], "ConnectorConflict",
     "turns the hierarchical cache off"),
    ("another cache's factory", HICACHE, ["--radix-cache-backend=flexkv"], "ConnectorConflict",
     "silently replaces --enable-hierarchical-cache"),
    ("int8 states", HICACHE, ["--enable-int8-mamba-checkpoint"], "ConnectorConflict",
     "does not go with a cache below the GPU's"),
    ("int8 states, LMCache", LMCACHE, ["--enable-int8-mamba-checkpoint"], "ConnectorConflict",
     "does not go with a cache below the GPU's"),
    ("several items", HICACHE, ["--enable-mis"], "ConnectorConflict", "disables the radix cache"),
    ("drafts and DCP", HICACHE, ["--dcp-size=2", "--speculative-algorithm=EAGLE"],
     "ConnectorConflict", "--dcp-size above 1 goes with --speculative-algorithm DSPARK only"),
    ("drafts in one pool", HICACHE,
     ["--enable-unified-memory", "--speculative-algorithm=EAGLE3"], "ConnectorConflict",
     "with --enable-unified-memory does not go with EAGLE"),
    ("one pool, LMCache", LMCACHE, ["--enable-unified-memory"], "ConnectorConflict",
     "--enable-lmcache does not go with --enable-unified-memory"),
    ("blocks received in host memory",
     Injection("x", flags={"--enable-hierarchical-cache": None, "--page-size": "64",
                           "--hicache-storage-backend": "file",
                           "--hicache-mem-layout": "page_first"}),
     ["--disaggregation-mode=decode", RADIX,
      "--disaggregation-decode-host-receive-threshold=0.5"], "ConnectorConflict",
     "makes --hicache-mem-layout layer_first"),
    ("config file", HICACHE, ["--config", "f.yaml"], "ArgsNotPatchable", "--config f.yaml cannot"),
    ("an expansion", HICACHE, [expansion("$X")], "ArgsNotPatchable", "may hold any flag"),
    ("ambiguous", HICACHE, ["--hicache-s", "1"], "ArgsNotPatchable", "--hicache-s is ambiguous"),
]  # fmt: skip


@pytest.mark.parametrize(("injection", "words", "reason", "message"), [c[1:] for c in REFUSED],
                         ids=[c[0] for c in REFUSED])  # fmt: skip
def test_refused(injection, words, reason, message):
    with pytest.raises(Refused) as found:
        planned(sglang(*words), ENGINE, injection).edits()
    assert (found.value.reason, message in found.value.message) == (reason, True), found.value


def test_notes():
    def notes(*words):
        return planned(sglang(*words), ENGINE, HICACHE).notes

    assert notes() == ()
    assert notes("--hicache-mem-layout", "page_first", "--hicache-io-backend", "direct") == (
        "--hicache-mem-layout page_first becomes page_first_direct with --hicache-io-backend "
        "direct",
    )
    assert notes("--hicache-mem-layout=layer_first") == (
        "--hicache-mem-layout layer_first becomes a page_first layout with the mooncake storage "
        "backend",
    )
    assert notes("--hicache-mem-layout=page_first_direct", "--enable-unified-memory") == (
        "--hicache-mem-layout page_first_direct becomes page_first, and --hicache-io-backend "
        "direct kernel, with --enable-unified-memory",
    )
    buffer_only = "--hicache-host-memory-mode=buffer_only"
    assert notes(buffer_only, "--hicache-write-policy=write_back") == (
        "--hicache-write-policy write_back becomes write_through with "
        "--hicache-host-memory-mode buffer_only",
    )
    assert notes("--speculative-algorithm=NGRAM", "--attention-backend=flashinfer") == ()
    assert planned(sglang(), ENGINE, Injection("x", flags={"--enable-lmcache": None})).notes == (
        "--page-size is not set, and SGLang's default on CUDA is 1: every token its own block",
    )
