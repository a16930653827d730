"""What vLLM's own release images hold.

How it is known. torch and CUDA: `requirements/cuda.txt` and `CUDA_VERSION` of `docker/Dockerfile`
in each release's source distribution. The connectors' packages: the Dockerfile installs
`requirements/kv_connectors.txt` (`lmcache >= 0.3.9` and no more until 0.32) with
`uv pip install --no-build`, so an image holds what that resolved to on the day of its build. The
rows are that resolution, made again with `uv pip compile --no-build --exclude-newer` for Python
3.12, the release's own torch and the image's glibc (2.35 until 0.27, 2.39 from 0.28), three days
before the release's upload, at it, and two days after; where the three differ, every answer is in
the row. It gave what was found by people who looked inside: all three packages of 0.19.1, lmcache
of 0.27.1. No image was opened by us.

From 0.22 to 0.27 the release pipeline replaced Mooncake by a build of its own (vllm PR 42114,
taken back by PR 51067): 0.3.10.post2, whatever was on PyPI.
"""

from dataclasses import dataclass

from function.contract.packages import Fact, absent, derived, stated, unknown

_UV = "vLLM's requirements/kv_connectors.txt, resolved by upload dates at the release"
_DOCKERFILE = "vLLM's docker/Dockerfile of that release"
_CU12 = "vLLM's requirements/kv_connectors_cu12.txt of that release"
_INSPECTED = "an inspection of vllm/vllm-openai:v0.19.1 published in April 2026, and " + _UV
_MOONCAKE = (
    "vllm PR 42114 and 51067: release images took a build of 0.3.10.post2 (0da9dfea3); seen in "
    "v0.23.0 (llm-d PR 1826) and v0.22.1 (TorchSpec PR 119)"
)
_NIXL_TWICE = "; nixl-cu13 is installed again there, at its newest"


@dataclass(frozen=True)
class Release:
    """One release's image for its default CUDA. Versions as in Fact."""

    version: str
    torch: str
    lmcache: tuple[str, ...]
    mooncake: tuple[str, ...]
    nixl: tuple[str, ...]


RELEASES: tuple[Release, ...] = (
    Release("0.18.0", "2.10.0", ("0.4.1", "0.4.2"), ("0.3.9", "0.3.10"), ("0.9.0",)),
    Release("0.18.1", "2.10.0", ("0.4.2",), ("0.3.10", "0.3.10.post1"), ("0.9.0",)),
    Release("0.19.0", "2.10.0", ("0.4.2",), ("0.3.10", "0.3.10.post1"), ("0.9.0",)),
    Release("0.19.1", "2.10.0", ("0.4.3",), ("0.3.10.post1",), ("0.9.0",)),
    Release("0.20.0", "2.11.0", ("0.4.4",), ("0.3.10.post2",), ("0.10.1",)),
    Release("0.20.1", "2.11.0", ("0.4.4",), ("0.3.10.post2",), ("0.10.1",)),
    Release("0.20.2", "2.11.0", ("0.4.4",), ("0.3.10.post2",), ("0.10.1",)),
    Release("0.21.0", "2.11.0", ("0.4.4", "0.4.5"), ("0.3.10.post2",), ("1.1.0",)),
    Release("0.22.0", "2.11.0", ("0.4.5", "0.4.6"), ("0.3.10.post2",), ("1.1.0", "1.2.0")),
    Release("0.22.1", "2.11.0", ("0.4.6",), ("0.3.10.post2",), ("1.2.0",)),
    Release("0.23.0", "2.11.0", ("0.4.6", "0.4.7"), ("0.3.10.post2",), ("1.2.0", "1.3.0")),
    Release("0.24.0", "2.11.0", ("0.5.0",), ("0.3.10.post2",), ("1.2.0", "1.3.0")),
    Release("0.25.0", "2.11.0", ("0.5.1",), ("0.3.10.post2",), ("1.3.0", "1.3.1")),
    Release("0.25.1", "2.11.0", ("0.5.1",), ("0.3.10.post2",), ("1.3.0", "1.3.1")),
    Release("0.26.0", "2.11.0", ("0.5.2",), ("0.3.10.post2",), ("1.3.1", "1.3.2")),
    Release("0.27.0", "2.13.0", ("0.5.3",), ("0.3.10.post2",), ("1.3.1", "1.3.2")),
    Release("0.27.1", "2.13.0", ("0.5.3",), ("0.3.10.post2",), ("1.3.1", "1.3.2")),
    Release("0.28.0", "2.13.0", ("0.5.4",), ("0.3.12.post1", "0.3.13"), ("1.3.2",)),
    Release("0.29.0", "2.13.0", ("0.5.4",), ("0.3.13.post1",), ("1.3.2",)),
    Release("0.30.0", "2.13.0", ("0.5.5",), ("0.3.13.post1",), ("1.4.1",)),
    Release("0.31.0", "2.13.0", ("0.5.5",), ("0.3.13.post1",), ("1.4.1",)),
    Release("0.32.0", "2.13.0", ("0.5.6",), ("0.3.13.post1",), ("1.5.0",)),
    Release("0.33.0", "2.14.0", ("0.5.6",), ("0.3.13.post1",), ("1.5.0",)),
)
_BY_VERSION = {row.version: row for row in RELEASES}

# What somebody found inside an image, or the release's own file pins, beside what is derived.
_LMCACHE_STATED = {
    "0.19.1": _INSPECTED,
    "0.27.1": "vllm 53424 names lmcache 0.5.3 in 0.27.1",
}
_MOONCAKE_STATED = {
    "0.19.1": _INSPECTED,
    **{r.version: _MOONCAKE for r in RELEASES if "0.22" <= r.version < "0.28"},
}
_NIXL_PINNED = ("0.28", "0.29", "0.30", "0.31", "0.32", "0.33")
_NIXL_FORCED = ("0.21", "0.22", "0.23", "0.24", "0.25", "0.26", "0.27")

# The CUDA 12 images have requirements of their own from 0.31 on.
_CUDA12: dict[str, dict[str, Fact]] = {
    "0.31": {"lmcache": stated(_CU12, "0.4.4"), "nixl": stated(_CU12, "1.4.1")},
    "0.32": {"lmcache": stated(_CU12, "0.4.4"), "nixl": stated(_CU12, "1.4.1")},
    "0.33": {
        "lmcache": stated(_CU12, "0.5.6", note="LMCache's build for CUDA 12.9"),
        "nixl": stated(_CU12, "1.5.0"),
    },
}


def cuda_images(version: str, cuda: str) -> dict[str, Fact] | None:
    """The packages of `vllm-openai` of a release; None for a release that is not in the table.

    `cuda`: the CUDA that the tag names ("12.9", "13.0"), "" for the release's default.
    """
    row = _BY_VERSION.get(version)
    if row is None:
        return None
    minor = version.rpartition(".")[0]
    default = "12.9" if minor in ("0.18", "0.19") else "13.0"
    facts = {
        "lmcache": _fact(_LMCACHE_STATED.get(version), _UV, row.lmcache),
        "mooncake": _fact(_MOONCAKE_STATED.get(version), _UV, row.mooncake),
        "nixl": _nixl(row, minor),
        "torch": stated("vLLM's requirements/cuda.txt of that release", row.torch),
        "cuda": stated(
            "the image's tag" if cuda else f"CUDA_VERSION of {_DOCKERFILE}", cuda or default
        ),
    }
    if (cuda or default).startswith("12."):
        facts.update(_CUDA12.get(minor, {}))
    return facts


def _fact(seen: str | None, source: str, versions: tuple[str, ...]) -> Fact:
    return stated(seen, *versions) if seen else derived(source, *versions)


def _nixl(row: Release, minor: str) -> Fact:
    if minor in _NIXL_PINNED:
        return stated("vLLM's requirements/kv_connectors.txt of that release", *row.nixl)
    return derived(_UV + (_NIXL_TWICE if minor in _NIXL_FORCED else ""), *row.nixl)


_NO_PACKAGE = "that release's docker/Dockerfile.{} installs no {}"
_ROCM_LMCACHE = (
    "docker/Dockerfile.rocm installs lmcache 0.5.3 with INSTALL_LMCACHE alone, which is off by "
    "default; nobody has said how the release is built"
)
_XPU_NIXL = (
    (24, "0.7.0"),  # releases before 0.24
    (29, "1.2.0"),
    (33, "1.3.2"),
    (34, "1.5.0"),
)


def other_images(version: str, accelerator: str) -> dict[str, Fact] | None:
    """The packages of `vllm-openai-rocm`, `-xpu` and `-cpu` of a release; None as above."""
    if version not in _BY_VERSION:
        return None
    minor = int(version.split(".")[1])
    facts = {
        name: absent(_NO_PACKAGE.format(accelerator, name)) for name in ("lmcache", "mooncake")
    }
    facts["cuda"] = absent("no CUDA image")
    if accelerator == "rocm" and minor >= 29:
        facts["lmcache"] = unknown(_ROCM_LMCACHE)
    if accelerator == "cpu":
        facts["nixl"] = absent(_NO_PACKAGE.format("cpu", "nixl"))
    elif accelerator == "xpu":
        nixl = next(version for before, version in _XPU_NIXL if minor < before)
        facts["nixl"] = stated("NIXL_VERSION of that release's docker/Dockerfile.xpu", nixl)
    return facts
