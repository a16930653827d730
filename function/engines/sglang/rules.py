"""What SGLang's KV offload does not go with: flag against flag, whichever tier brings them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

Flags = Mapping[str, str | None]


@dataclass(frozen=True)
class Rule:
    """Two things that do not go together; `when` decides on the flags as they would end up.

    `fatal`: SGLang stops, or gives up the offload without a word; else it only rewrites a value.
    """

    about: str
    when: Callable[[Flags], bool]
    fatal: bool = True


def _mode(flags: Flags) -> str:
    return flags.get("--disaggregation-mode") or "null"


def _hicache(flags: Flags) -> bool:
    return "--enable-hierarchical-cache" in flags


def _offload(flags: Flags) -> bool:
    return "--disaggregation-decode-enable-offload-kvcache" in flags


def _lmcache(flags: Flags) -> bool:
    return "--enable-lmcache" in flags


def _number(flags: Flags, name: str) -> float | None:
    try:
        return float(flags.get(name) or "")
    except ValueError:
        return None


def _below(flags: Flags, name: str, limit: float) -> bool:
    value = _number(flags, name)
    return value is not None and value < limit


def _is(flags: Flags, name: str, *values: str | None) -> bool:
    return flags.get(name) in values


# Sources: SGLang's own checks over 72 cases, and the flags it accepts though they are wrong.
RULES: tuple[Rule, ...] = (
    Rule(
        "--disable-radix-cache turns off what --enable-hierarchical-cache extends",
        lambda f: _hicache(f) and "--disable-radix-cache" in f,
    ),
    Rule(
        "--enable-lmcache and --enable-hierarchical-cache exclude each other",
        lambda f: _hicache(f) and _lmcache(f),
    ),
    Rule(
        "--enable-lmcache does not go with --disable-radix-cache",
        lambda f: _lmcache(f) and "--disable-radix-cache" in f,
    ),
    Rule(
        "--enable-lmcache does not go with --disaggregation-mode",
        lambda f: _lmcache(f) and _mode(f) != "null",
    ),
    Rule(
        "--enable-lmcache does not go with speculative decoding (--speculative-algorithm)",
        lambda f: _lmcache(f) and "--speculative-algorithm" in f,
    ),
    Rule(
        "--enable-lmcache does not go with DP attention (--enable-dp-attention, --attn-dp-size)",
        lambda f: (
            _lmcache(f)
            and ("--enable-dp-attention" in f or (_number(f, "--attn-dp-size") or 1) > 1)
        ),
    ),
    Rule(
        "--enable-lmcache does not go with --dcp-size above 1",
        lambda f: _lmcache(f) and (_number(f, "--dcp-size") or 1) > 1,
    ),
    Rule(
        "a decode engine takes --enable-hierarchical-cache only together with "
        "--disaggregation-decode-enable-radix-cache; add it",
        lambda f: (
            _hicache(f)
            and _mode(f) == "decode"
            and "--disaggregation-decode-enable-radix-cache" not in f
        ),
    ),
    Rule(
        "--disaggregation-decode-enable-offload-kvcache needs --disaggregation-mode decode and a "
        "--hicache-storage-backend",
        lambda f: (
            "--disaggregation-decode-enable-offload-kvcache" in f
            and (_mode(f) != "decode" or "--hicache-storage-backend" not in f)
        ),
    ),
    Rule(
        "--hicache-host-memory-mode buffer_only needs a --hicache-storage-backend",
        lambda f: (
            _is(f, "--hicache-host-memory-mode", "buffer_only")
            and "--hicache-storage-backend" not in f
        ),
    ),
    Rule(
        "--hicache-host-memory-mode buffer_only does not go with a decode engine",
        lambda f: (
            _is(f, "--hicache-host-memory-mode", "buffer_only")
            and _mode(f) == "decode"
            and (_hicache(f) or _offload(f))
        ),
    ),
    Rule(
        "--hicache-host-memory-mode buffer_only does not go with --dcp-size above 1",
        lambda f: (
            _is(f, "--hicache-host-memory-mode", "buffer_only")
            and _hicache(f)
            and (_number(f, "--dcp-size") or 1) > 1
        ),
    ),
    Rule(
        "--enable-unified-cache-external-linker takes the place of --enable-hierarchical-cache",
        lambda f: _hicache(f) and "--enable-unified-cache-external-linker" in f,
    ),
    Rule(
        "--enable-kv-cache-sharding does not go with a --hicache-storage-backend: the storage "
        "writes whole pages",
        lambda f: (
            _hicache(f) and "--hicache-storage-backend" in f and "--enable-kv-cache-sharding" in f
        ),
    ),
    Rule(
        "--disaggregation-decode-allocation-policy prefill_complete goes with a hierarchical cache "
        "of host memory and --hicache-write-policy write_back only",
        lambda f: (
            _is(f, "--disaggregation-decode-allocation-policy", "prefill_complete")
            and _hicache(f)
            and _mode(f) == "prefill"
            and (
                "--hicache-storage-backend" in f
                or not _is(f, "--hicache-write-policy", "write_back")
            )
        ),
    ),
    Rule(
        "--disaggregation-decode-enable-offload-kvcache and "
        "--disaggregation-decode-retraction-backup host_pool each make a host pool",
        lambda f: _offload(f) and _is(f, "--disaggregation-decode-retraction-backup", "host_pool"),
    ),
    Rule(
        "--dllm-algorithm turns the hierarchical cache off, with no more than a line in the log",
        lambda f: _hicache(f) and "--dllm-algorithm" in f,
    ),
    Rule(
        "--radix-cache-backend takes the place of --enable-hierarchical-cache without a word",
        lambda f: _hicache(f) and "--radix-cache-backend" in f,
    ),
    Rule(
        "--enable-mis disables the radix cache, and with it what lies below",
        lambda f: (_hicache(f) or _lmcache(f)) and "--enable-mis" in f,
    ),
    Rule(
        "--enable-int8-mamba-checkpoint does not go with a cache below the GPU's",
        lambda f: (_hicache(f) or _lmcache(f)) and "--enable-int8-mamba-checkpoint" in f,
    ),
    Rule(
        "--enable-hierarchical-cache with --dcp-size above 1 goes with --speculative-algorithm "
        "DSPARK only",
        lambda f: (
            _hicache(f)
            and (_number(f, "--dcp-size") or 1) > 1
            and not _is(f, "--speculative-algorithm", None, "DSPARK")
        ),
    ),
    Rule(
        "--enable-hierarchical-cache with --enable-unified-memory does not go with EAGLE and "
        "EAGLE3 (--speculative-algorithm)",
        lambda f: (
            _hicache(f)
            and "--enable-unified-memory" in f
            and _is(f, "--speculative-algorithm", "EAGLE", "EAGLE3")
        ),
    ),
    Rule(
        "--enable-lmcache does not go with --enable-unified-memory",
        lambda f: _lmcache(f) and "--enable-unified-memory" in f,
    ),
    Rule(
        "--disaggregation-decode-host-receive-threshold below 1 makes --hicache-mem-layout "
        "layer_first without a word: what lies in the storage has another layout",
        lambda f: (
            _below(f, "--disaggregation-decode-host-receive-threshold", 1)
            and (_hicache(f) or _offload(f))
            and "--hicache-storage-backend" in f
            and not _is(f, "--hicache-mem-layout", "layer_first")
        ),
    ),
    Rule(
        "--speculative-algorithm NGRAM goes with a --page-size above 1 on --attention-backend "
        "flashinfer only (or with --speculative-ngram-max-bfs-breadth 1)",
        lambda f: (
            _is(f, "--speculative-algorithm", "NGRAM")
            and (_number(f, "--page-size") or 1) > 1
            and _number(f, "--speculative-ngram-max-bfs-breadth") != 1
            and not _is(f, "--attention-backend", "flashinfer")
        ),
    ),
    Rule(
        "--hicache-host-memory-fraction must be above 0 and at most 1",
        lambda f: (
            (v := _number(f, "--hicache-host-memory-fraction")) is not None and not 0 < v <= 1
        ),
    ),
    Rule(
        "--hicache-storage-backend does nothing without --enable-hierarchical-cache, though "
        "SGLang accepts it",
        lambda f: (
            "--hicache-storage-backend" in f
            and not _hicache(f)
            and "--disaggregation-decode-enable-offload-kvcache" not in f
        ),
    ),
    Rule(
        "--hicache-size is negative, though SGLang accepts it",
        lambda f: _below(f, "--hicache-size", 0),
    ),
    Rule(
        "--hicache-ratio below 1 gives a host cache smaller than the GPU's, though SGLang accepts "
        "it",
        lambda f: _below(f, "--hicache-ratio", 1) and not (_number(f, "--hicache-size") or 0) > 0,
    ),
    Rule(
        "--hicache-mem-layout page_first becomes page_first_direct with --hicache-io-backend "
        "direct",
        lambda f: (
            _is(f, "--hicache-mem-layout", "page_first")
            and _is(f, "--hicache-io-backend", "direct")
        ),
        fatal=False,
    ),
    Rule(
        "--hicache-io-backend kernel becomes direct with --hicache-mem-layout page_first_direct",
        lambda f: (
            _is(f, "--hicache-mem-layout", "page_first_direct")
            and _is(f, "--hicache-io-backend", "kernel")
        ),
        fatal=False,
    ),
    Rule(
        "--hicache-mem-layout page_first_direct becomes page_first, and --hicache-io-backend "
        "direct kernel, with --enable-unified-memory",
        lambda f: (
            _is(f, "--hicache-mem-layout", "page_first_direct") and "--enable-unified-memory" in f
        ),
        fatal=False,
    ),
    Rule(
        "--hicache-write-policy write_back becomes write_through with "
        "--hicache-host-memory-mode buffer_only",
        lambda f: (
            _is(f, "--hicache-host-memory-mode", "buffer_only")
            and _is(f, "--hicache-write-policy", "write_back")
        ),
        fatal=False,
    ),
    Rule(
        "--hicache-mem-layout layer_first becomes a page_first layout with the mooncake storage "
        "backend",
        lambda f: (
            _is(f, "--hicache-mem-layout", "layer_first")
            and _is(f, "--hicache-storage-backend", "mooncake")
        ),
        fatal=False,
    ),
    Rule(
        "--hicache-io-backend kernel_ascend is for Ascend NPUs, though SGLang accepts it on CUDA",
        lambda f: _is(f, "--hicache-io-backend", "kernel_ascend"),
        fatal=False,
    ),
    Rule(
        "--page-size is not set, and SGLang's default on CUDA is 1: every token its own block",
        lambda f: (_hicache(f) or _lmcache(f)) and "--page-size" not in f,
        fatal=False,
    ),
)
