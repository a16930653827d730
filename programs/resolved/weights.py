import functools
import hashlib
import json
import logging
import re
import struct
import time

FORMAT = 1
_WEIGHTS = re.compile(r".*\.(safetensors|bin|pt|pth|gguf|ckpt|tensors|py)")
_MIB, _SAMPLE, _SAMPLES, _HEADER = 1 << 20, 4096, 512, 100_000_000


def digest_of(found, begun, log="vllm"):
    text = json.dumps(found, sort_keys=True)
    digest = hashlib.sha256(text.encode()).hexdigest()[:16]
    spent = 1000 * (time.monotonic() - begun)
    logging.getLogger(log + ".kv_offload").info("kv-offload %s (%.0f ms): %s", digest, spent, text)
    return digest


def as_text(value):
    """JSON, alike in every process."""
    text = json.dumps(value, sort_keys=True, default=_other)
    return re.sub(r" at 0x[0-9a-f]+", "", text)


def _other(value):
    return sorted(map(str, value)) if isinstance(value, (set, frozenset)) else str(value)


def public(value):
    """Without its place and author."""
    if isinstance(value, dict):
        names = (k for k in value if not str(k).startswith("_") and k != "transformers_version")
        return {str(name): public(value[name]) for name in names}
    return [public(item) for item in value] if isinstance(value, (list, tuple)) else value


def weight_files(folder):
    if folder.is_file():
        return (folder,)
    found = (f for f in folder.rglob("*") if _WEIGHTS.fullmatch(f.name) and f.is_file())
    kept = (f for f in found if not f.relative_to(folder).parts[0].startswith((".", "original")))
    return tuple(sorted(kept))


@functools.lru_cache
def fingerprint(files):
    """Return a digest of sizes, first and last MiB, and samples of tensors (512)."""
    digest, most = hashlib.sha256(), max(1, _SAMPLES // len(files))
    for file in files:
        size = file.stat().st_size
        digest.update(f"{file.name} {size}\n".encode())
        with open(file, "rb", _SAMPLE) as stream:
            starts = _tensors(stream, size) or range(0, size, size // most + 1)
            digest.update(_read(stream, 0, _MIB) + _read(stream, max(0, size - _MIB), _MIB))
            for start in starts[:: len(starts) // most + 1]:
                digest.update(_read(stream, start, _SAMPLE))
    return digest.hexdigest()[:16]


def _tensors(stream, size):
    """Return the middle of each tensor."""
    try:
        (length,) = struct.unpack("<Q", _read(stream, 0, 8))
        if not 0 < length < min(size, _HEADER) or _read(stream, 8, 1) != b"{":
            return []
        rows = json.loads(_read(stream, 8, length))
        spans = [row["data_offsets"] for name, row in rows.items() if name != "__metadata__"]
        return sorted(8 + length + sum(span) // 2 for span in spans)
    except (ValueError, KeyError, TypeError, AttributeError, struct.error):
        return []


def _read(stream, start, length):
    stream.seek(start)
    return stream.read(length)
