"""Images whose tags are releases of their own: LMCache's, llm-d's, Ray's, NVIDIA's, Red Hat's.

LMCache's `image-release` target installs vLLM at its newest and then its own version (docker/
Dockerfile of 0.5.0 to 0.5.6), so vLLM is what was newest three days after LMCache's upload; LMCache
5168 found vLLM 0.29.0 and torch 2.13.0+cu130 in v0.5.5, as the rule says. Mooncake is not among the
requirements of either.
"""

from collections.abc import Mapping

from packaging.version import Version

from function.contract.packages import DERIVED, STATED, Fact, absent, derived, stated, unknown
from function.contract.stock_images import vllm
from function.contract.stock_images.facts import Contents
from function.contract.versions import parse

_TAG = "the image's tag is LMCache's version"
_NEWEST = "docker/Dockerfile of LMCache: vLLM at its newest on the day"
_NO_MOONCAKE = "docker/Dockerfile of LMCache installs no Mooncake"

# LMCache's version -> vLLM's in lmcache/vllm-openai.
LMCACHE_VLLM: Mapping[str, str] = {
    "0.5.0": "0.23.0",
    "0.5.1": "0.24.0",
    "0.5.2": "0.25.1",
    "0.5.3": "0.26.0",
    "0.5.4": "0.27.1",
    "0.5.5": "0.29.0",
    "0.5.6": "0.31.0",
}
# A stock image holds the LMCache of its day, so that an LMCache is younger than each vLLM whose
# image holds an older one; the newest of them is what the table above has, for all of its rows.
_LMCACHE_FIRST, _LMCACHE_BEFORE = Version("0.4.5"), "0.19.1"
_OLDER = "no newer than the newest vLLM before LMCache 0.4.4"
_SEEN = {"0.5.5": "LMCache 5168: lmcache/vllm-openai:v0.5.5 has vLLM 0.29.0"}

# lmcache/sglang begins with 0.5.6.
LMCACHE_SGLANG: Mapping[str, tuple[str, str]] = {"0.5.6": ("0.5.21", "2.13.0")}
_SGLANG_FILE = "docker/Dockerfile.sglang of LMCache 0.5.6: SGLANG_VERSION, EXPECTED_TORCH"

# llm-d's release -> vLLM's, and where llm-d says so.
LLMD_VLLM: Mapping[str, str] = {
    "0.7.0": "0.19.1",
    "0.8.0": "0.23.0",
    "0.8.1": "0.23.0",
    "0.9.0": "0.26.0",
}
_LLMD = "the component summary of llm-d's releases v0.8.0 and v0.9.0"

# What a release before the first of these holds is no newer.
_LLMD_FIRST = Version("0.7.0")
_LLMD_BEFORE = "no newer than what llm-d v0.7.0 holds"

# Ray's release -> the newest vLLM that it may hold: Ray's own pull requests of each upgrade.
RAY_VLLM: Mapping[str, str] = {
    "2.50": "0.10.2",
    "2.51": "0.11.0",
    "2.52": "0.11.2",
    "2.53": "0.12.0",
    "2.54": "0.15.1",
    "2.55": "0.18.1",
    "2.56": "0.22.0",
}
_RAY = "ray-project/ray 57591, 59440, 63396, 63730; by date between them"

# NVIDIA's release -> vLLM's, torch and CUDA, from its release notes.
NVIDIA_VLLM: Mapping[str, tuple[str, str, str]] = {
    "25.10": ("0.10.2", "", "13.0"),
    "26.01": ("0.11.1", "2.10.0a0", "13.1"),
    "26.03": ("0.17.1", "2.11.0a0", "13.2"),
    "26.05": ("0.20.1", "2.12.0a0", "13.2"),
    "26.10": ("0.31.0", "2.15.0a0", "13.4"),
}
_NVIDIA = "NVIDIA's vLLM release notes"
# What an unlisted release before this one holds is no newer.
_NVIDIA_FIRST = "26.03"
_UNLISTED = "NVIDIA's release notes do not name it"

REDHAT_VLLM: Mapping[str, str] = {"3.0": "0.8.4"}


def lmcache_vllm(version: str, cuda: str, variant: frozenset[str]) -> Contents:
    """lmcache/vllm-openai. `cuda`: as the tag names it; `variant`: its other words."""
    engine = LMCACHE_VLLM.get(version)
    own = stated(_TAG, version, note=f"LMCache's build for CUDA {cuda}" if cuda else "")
    if (found := parse(version)) and found < _LMCACHE_FIRST:
        held = {"lmcache": own}
        return Contents("vLLM", _LMCACHE_BEFORE, DERIVED, _OLDER, held, "cuda")
    if engine is None or variant - {"lightweight"}:
        return Contents("vLLM", packages={"lmcache": own}, accelerator="cuda")
    seen = _SEEN.get(version)
    stock = vllm.cuda_images(engine, cuda) or {}
    packages: dict[str, Fact] = {
        "lmcache": own,
        "torch": stock["torch"],
        "cuda": stated("the image's tag" if cuda else _NEWEST, cuda or "13.0"),
        "mooncake": absent(_NO_MOONCAKE),
        "nixl": unknown("nixl at its newest on the day"),
    }
    if "lightweight" in variant:  # vllm/vllm-openai with LMCache installed on top
        packages |= {name: stock[name] for name in ("mooncake", "nixl")}
    known, source = (STATED, seen) if seen else (DERIVED, _NEWEST)
    return Contents("vLLM", engine, known, source, packages, "cuda")


def lmcache_dated() -> Contents:
    """lmcache/vllm-openai by a date: its images before LMCache 0.3.9, whose tags are versions."""
    return Contents(
        "vLLM", "0.10.2", DERIVED, "no newer than LMCache's last dated image", {}, "cuda"
    )


def lmcache_sglang(version: str, cuda: str, variant: frozenset[str]) -> Contents:
    engine, torch = LMCACHE_SGLANG.get(version, (None, ""))
    packages: dict[str, Fact] = {"lmcache": stated(_TAG, version)}
    if engine is None or variant:
        return Contents("SGLang", packages=packages, accelerator="cuda")
    packages["torch"] = stated(_SGLANG_FILE, torch)
    packages["cuda"] = stated("SGLang's install page: CUDA 12 images end with v0.5.19", "13.0")
    packages["mooncake"] = derived("as in lmsysorg/sglang:v0.5.21", "0.3.13", "0.3.13.post1")
    return Contents("SGLang", engine, STATED, _SGLANG_FILE, packages, "cuda")


def llmd(path: str, accelerator: str, engine: str, release: str) -> Contents:
    """llm-d's images: the engine's version where llm-d says it; of the rest nothing is said."""
    version = LLMD_VLLM.get(release) if engine == "vLLM" else None
    if engine == "vLLM" and (found := parse(release)) and found < _LLMD_FIRST:
        oldest = LLMD_VLLM[str(_LLMD_FIRST)]
        return Contents(engine, oldest, DERIVED, _LLMD_BEFORE, accelerator=accelerator)
    if path in ("llm-d/llm-d-rocm", "llm-d/llm-d-hpu") or version is None:
        return Contents(engine, accelerator=accelerator)  # built from commits of their own
    packages: dict[str, Fact] = {
        "lmcache": unknown(
            "llm-d builds vLLM itself; lmcache was missing from images of January 2026 (llm-d 661)"
        ),
    }
    if path == "llm-d/llm-d-cuda" and release.startswith("0.8"):
        packages["cuda"] = stated(_LLMD, "13.0")
    if path == "llm-d/llm-d-xpu" and release == "0.9.0":  # vllm-openai-xpu:v0.26.0 as it is
        packages |= vllm.other_images("0.26.0", "xpu") or {}
    return Contents(engine, version, STATED, _LLMD, packages, accelerator)


def ray(release: str) -> Contents:
    """rayproject/ray-llm: which vLLM, and nothing about what is beside it."""
    version = RAY_VLLM.get(".".join(release.split(".")[:2]))
    if version is None and (found := parse(release)) and found < Version(min(RAY_VLLM)):
        version = RAY_VLLM[min(RAY_VLLM)]
    if version is None:
        return Contents("vLLM", accelerator="cuda")
    return Contents("vLLM", version, DERIVED, _RAY, accelerator="cuda")


def nvidia(release: str) -> Contents:
    version, torch, cuda = NVIDIA_VLLM.get(release, (None, "", ""))
    packages: dict[str, Fact] = {name: unknown(_UNLISTED) for name in ("lmcache", "mooncake")}
    if version is None:
        if release < _NVIDIA_FIRST:
            bound, source = NVIDIA_VLLM[_NVIDIA_FIRST][0], f"no newer than {_NVIDIA_FIRST}"
            return Contents("vLLM", bound, DERIVED, source, packages, "cuda")
        return Contents("vLLM", packages=packages, accelerator="cuda")
    if torch:
        packages["torch"] = stated(_NVIDIA, torch)
    packages["cuda"] = stated(_NVIDIA, cuda)
    return Contents("vLLM", version, STATED, f"{_NVIDIA}, {release}", packages, "cuda")


def redhat(release: str, accelerator: str) -> Contents:
    version = REDHAT_VLLM.get(".".join(release.split(".")[:2]))
    known = STATED if version else "unknown"
    source = "Red Hat AI Inference Server's product and version compatibility" if version else ""
    return Contents("vLLM", version, known, source, {}, accelerator)
