"""Contents of public images; unknown contents stay unknown."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from packaging.version import Version

from function.api.engines import ENGINES, VLLM
from function.api.packages import PACKAGES
from function.contract.packages import DERIVED, STATED, UNKNOWN, Fact
from function.contract.stock_images import builds, contents, own
from function.contract.stock_images.facts import Contents
from function.contract.stock_images.repositories import REPOSITORIES
from function.contract.versions import known_versions, releases
from function.facts import FOLDER, document
from kv_offload.docs.lmcache_builds import WHEELS, native

DIGEST = "@sha256:" + "0" * 64


def row(version, how, accelerator, **packages):
    """(version, how it is known, accelerator, {package: what it may be}).

    Python is 3.12 in every image of which torch and mooncake are known.
    """
    if "torch" in packages and packages.get("mooncake", "unknown") != "unknown":
        packages["python"] = "3.12"
    return (version, how, accelerator, packages)


def summary(image):
    found = contents(image)
    assert found is not None
    packages = {name: str(fact) for name, fact in found.packages.items()}
    return (found.version, found.version_known, found.accelerator, packages)


CUDA13 = {"cuda": "13.0"}
WHOLE = [
    ("vllm/vllm-openai:v0.33.0", row("0.33.0", STATED, "cuda", lmcache="0.5.6",
     mooncake="0.3.13.post1", nixl="1.5.0", torch="2.14.0", **CUDA13)),
    ("vllm/vllm-openai:v0.33.0-cu129", row("0.33.0", STATED, "cuda", lmcache="0.5.6",
     mooncake="0.3.13.post1", nixl="1.5.0", torch="2.14.0", cuda="12.9")),
    ("vllm/vllm-openai:v0.31.0-cu129", row("0.31.0", STATED, "cuda", lmcache="0.4.4",
     mooncake="0.3.13.post1", nixl="1.4.1", torch="2.13.0", cuda="12.9")),
    ("vllm/vllm-openai:v0.30.0", row("0.30.0", STATED, "cuda", lmcache="0.5.5",
     mooncake="0.3.13.post1", nixl="1.4.1", torch="2.13.0", **CUDA13)),
    ("mirror.corp:5000/hub/vllm/vllm-openai:v0.29.0-x86_64-ubuntu2404",
     row("0.29.0", STATED, "cuda", lmcache="0.5.4", mooncake="0.3.13.post1", nixl="1.3.2",
         torch="2.13.0", **CUDA13)),
    ("vllm/vllm-openai:v0.28.0", row("0.28.0", STATED, "cuda", lmcache="0.5.4",
     mooncake="0.3.12.post1 or 0.3.13", nixl="1.3.2", torch="2.13.0", **CUDA13)),
    ("vllm/vllm-openai:v0.23.0" + DIGEST, row("0.23.0", STATED, "cuda",
     lmcache="0.4.6 or 0.4.7", mooncake="0.3.10.post2", nixl="1.2.0 or 1.3.0", torch="2.11.0",
     **CUDA13)),
    ("vllm/vllm-openai:v0.19.1", row("0.19.1", STATED, "cuda", lmcache="0.4.3",
     mooncake="0.3.10.post1", nixl="0.9.0", torch="2.10.0", cuda="12.9")),
    ("vllm/vllm-openai:v0.19.0-cu130", row("0.19.0", STATED, "cuda", lmcache="0.4.2",
     mooncake="0.3.10 or 0.3.10.post1", nixl="0.9.0", torch="2.10.0", **CUDA13)),
    ("vllm/vllm-openai-rocm:v0.28.0", row("0.28.0", STATED, "rocm", lmcache="none",
     mooncake="none", cuda="none")),
    ("vllm/vllm-openai-rocm:v0.31.0", row("0.31.0", STATED, "rocm", lmcache="unknown",
     mooncake="none", cuda="none")),
    ("vllm/vllm-openai-xpu:v0.30.0", row("0.30.0", STATED, "xpu", lmcache="none",
     mooncake="none", nixl="1.3.2", cuda="none")),
    ("vllm/vllm-openai-cpu:v0.33.0-x86_64", row("0.33.0", STATED, "cpu", lmcache="none",
     mooncake="none", nixl="none", cuda="none")),
    ("lmsysorg/sglang:v0.5.23", row("0.5.23", STATED, "cuda", lmcache="none",
     mooncake="0.3.13 or 0.3.13.post1", nixl="1.5.0 or 1.5.1", torch="2.14.1", **CUDA13)),
    ("lmsysorg/sglang:v0.5.19-cu129", row("0.5.19", STATED, "cuda", lmcache="none",
     mooncake="0.3.13", nixl="1.4.0 or 1.4.1", torch="2.13.0", cuda="12.9")),
    ("lmsysorg/sglang:v0.5.16-runtime", row("0.5.16", STATED, "cuda", lmcache="none",
     mooncake="0.3.11.post1", nixl="1.3.1 or 1.3.2", torch="2.11.0", cuda="unknown")),
    ("lmsysorg/sglang:v0.5.5.post3", row("0.5.5.post3", STATED, "cuda", lmcache="none",
     mooncake="0.3.7.post1 or 0.3.7.post2", nixl="0.7.1", torch="2.8.0", cuda="12.9")),
    ("lmsysorg/sglang:v0.5.21-rocm720-mi35x", row("0.5.21", STATED, "rocm", lmcache="none",
     cuda="none")),
    ("lmsysorg/sglang:v0.5.20-cann8.5.0-910b", row("0.5.20", STATED, "npu", lmcache="none",
     cuda="none")),
    ("lmcache/vllm-openai:v0.5.6", row("0.31.0", DERIVED, "cuda", lmcache="0.5.6",
     mooncake="none", nixl="unknown", torch="2.13.0", **CUDA13)),
    ("lmcache/vllm-openai:v0.5.5", row("0.29.0", STATED, "cuda", lmcache="0.5.5",
     mooncake="none", nixl="unknown", torch="2.13.0", **CUDA13)),
    ("lmcache/vllm-openai:v0.5.6-lightweight", row("0.31.0", DERIVED, "cuda", lmcache="0.5.6",
     mooncake="0.3.13.post1", nixl="1.4.1", torch="2.13.0", **CUDA13)),
    ("lmcache/vllm-openai:v0.3.5", row("0.19.1", DERIVED, "cuda", lmcache="0.3.5")),
    ("lmcache/vllm-openai:v0.4.4", row("0.19.1", DERIVED, "cuda", lmcache="0.4.4")),
    ("lmcache/vllm-openai:v0.4.6", row(None, UNKNOWN, "cuda", lmcache="0.4.6")),
    ("ghcr.io/llm-d/llm-d-dev:v0.2.2", row("0.19.1", DERIVED, "cuda")),
    ("lmcache/vllm-openai:v0.5.5rc5", row(None, UNKNOWN, "cuda", lmcache="0.5.5rc5")),
    ("lmcache/sglang:v0.5.6", row("0.5.21", STATED, "cuda", lmcache="0.5.6",
     mooncake="0.3.13 or 0.3.13.post1", torch="2.13.0", **CUDA13)),
    ("ghcr.io/llm-d/llm-d-cuda:v0.9.0", row("0.26.0", STATED, "cuda", lmcache="unknown")),
    ("ghcr.io/llm-d/llm-d-cuda:v0.8.1", row("0.23.0", STATED, "cuda", lmcache="unknown",
     **CUDA13)),
    ("ghcr.io/llm-d/llm-d-cuda:v0.7.0", row("0.19.1", STATED, "cuda", lmcache="unknown")),
    ("ghcr.io/llm-d/llm-d-cuda:v0.5.1", row("0.19.1", DERIVED, "cuda")),
    ("ghcr.io/llm-d/llm-d:v0.2.0", row("0.19.1", DERIVED, "cuda")),
    ("rayproject/ray-llm:2.52.0-py311-cu128", row("0.11.2", DERIVED, "cuda", lmcache="none",
     cuda="12.8", python="3.11")),
    ("rayproject/ray-llm:2.56.0-py312-cu130", row("0.22.0", DERIVED, "cuda", lmcache="none",
     nixl="1.1.0", torch="2.11.0", python="3.12", **CUDA13)),
    ("rayproject/ray-llm:2.57.1", row("0.25.1", DERIVED, "cuda", lmcache="none", nixl="1.3.0",
     torch="2.11.0")),
    ("rayproject/ray-llm:2.60.0-py312-cu130", row("0.29.0", DERIVED, "cuda", lmcache="none",
     nixl="1.3.2", torch="2.13.0", python="3.12", **CUDA13)),
    ("rayproject/ray-llm:2.60.0-py312-cu130-mine", row("0.29.0", DERIVED, "cuda")),
    ("rayproject/ray-llm:2.44.1", row("0.10.2", DERIVED, "cuda")),
    ("rayproject/ray-llm:2.99.0", row(None, UNKNOWN, "cuda")),
    ("nvcr.io/nvidia/vllm:25.12-py3", row("0.17.1", DERIVED, "cuda", lmcache="unknown",
     mooncake="unknown")),
    ("docker.io/vllm/vllm-openai:v0.9.0.1", row("0.9.0.1", STATED, "cuda")),
    ("lmcache/vllm-openai:2025-05-05-v1", row("0.10.2", DERIVED, "cuda")),
    ("ghcr.io/llm-d/llm-d-rocm:v0.9.0", row(None, UNKNOWN, "rocm")),
    ("ghcr.io/llm-d/llm-d-xpu:v0.9.0", row("0.26.0", STATED, "xpu", lmcache="none",
     mooncake="none", nixl="1.2.0", cuda="none")),
    ("nvcr.io/nvidia/vllm:26.10-py3", row("0.31.0", STATED, "cuda", lmcache="unknown",
     mooncake="unknown", torch="2.15.0a0", cuda="13.4")),
    ("nvcr.io/nvidia/vllm:26.08-py3", row(None, UNKNOWN, "cuda", lmcache="unknown",
     mooncake="unknown")),
    ("registry.redhat.io/rhaiis/vllm-cuda-rhel9:3.0.0", row("0.8.4", STATED, "cuda")),
    ("registry.redhat.io/rhaiis/vllm-cuda-rhel9:3.3.1", row(None, UNKNOWN, "cuda")),
    ("rocm/vllm:rocm6.2_mi300_ubuntu20.04_py3.9_vllm_0.6.4", row("0.6.4", STATED, "rocm")),
    ("intel/vllm:0.17.0-xpu", row("0.17.0", STATED, "xpu")),
    ("quay.io/ascend/vllm-ascend:v0.23.0rc1", row("0.23.0rc1", STATED, "npu")),
    # Another publisher's, a variant, a release that no row has: the version, and no more.
    ("corp/vllm-openai:v0.33.0", row("0.33.0", STATED, "cuda")),
    ("aibrix/vllm-openai:v0.10.2-aibrix0.5.1", row("0.10.2", STATED, "cuda")),
    ("vllm/vllm-openai:v0.22.0-glm5", row("0.22.0", STATED, "cuda")),
    ("vllm/vllm-openai:v0.99.0", row("0.99.0", STATED, "cuda")),
    ("vllm/vllm-openai:v0.33.1", row("0.33.1", STATED, "cuda")),
    ("vllm/vllm-openai:kimi-k3", row(None, UNKNOWN, "cuda")),
    ("vllm/vllm-openai:latest", row(None, UNKNOWN, "cuda")),
    ("vllm/vllm-openai" + DIGEST, row(None, UNKNOWN, "cuda")),
]  # fmt: skip


@pytest.mark.parametrize(("image", "expected"), WHOLE)
def test_contents_of_a_stock_image(image, expected):
    assert summary(image) == expected


def test_a_bound_is_older_than_every_supported_version():
    """Wiring takes a bound for the version: only of images that no tier serves is that right."""
    bounds = [row for row in builds.BUILDS if row.before or row.dated]
    assert bounds
    for row in bounds:
        engine = next(r.engine for r in REPOSITORIES if r.path.startswith(row.repository))
        assert Version(row.version) < Version(known_versions(engine)[0])


@pytest.mark.parametrize(
    ("image", "bound"),
    [
        ("rayproject/ray-llm:2.44.1", True),
        ("lmcache/vllm-openai:2025-05-05-v1", True),
        ("nvcr.io/nvidia/vllm:25.12-py3", True),
        ("rayproject/ray-llm:2.50.0", False),
        ("nvcr.io/nvidia/vllm:25.10-py3", False),
        ("vllm/vllm-openai:v0.33.0", False),
    ],
)
def test_whether_a_version_is_a_bound(image, bound):
    found = contents(image)
    assert found is not None and found.at_most is bound


@pytest.mark.parametrize("image", ["me/app:1", "", "nginx", "vllm-openai-mine:v0.33.0"])
def test_unlisted_image_has_no_contents(image):
    assert contents(image) is None


@pytest.mark.parametrize(
    ("image", "moving"),
    [
        ("vllm/vllm-openai", True),
        ("vllm/vllm-openai:latest", True),
        ("vllm/vllm-openai:nightly-x86_64", True),
        ("lmsysorg/sglang:dev-cu13", True),
        ("lmcache/vllm-openai:latest-nightly", True),
        ("vllm/vllm-openai:cu130-nightly", True),
        ("vllm/vllm-openai:v0.33.0", False),
        ("vllm/vllm-openai:kimi-k3", False),
        ("vllm/vllm-openai:latest" + DIGEST, False),
    ],
)
def test_moving_tags(image, moving):
    found = contents(image)
    assert found is not None and found.moving is moving


@pytest.mark.parametrize(
    ("versions", "spec", "answer"),
    [
        (("0.5.5", "0.5.6"), ">=0.5.5", True),
        (("0.5.4", "0.5.5"), ">=0.5.5", None),
        (("0.5.4",), ">=0.5.5", False),
        ((), ">=0.5.5", False),
        (None, ">=0.5.5", None),
        (("0.3.13.post1",), ">=0.3.13,<0.3.14", True),
        (("0.5.5rc5",), ">=0.5.4", True),
    ],
)
def test_fact_within_a_version_range(versions, spec, answer):
    assert Fact(versions, STATED, "a test").within(spec) is answer


@pytest.mark.parametrize(
    ("image", "answer"),
    [
        ("vllm/vllm-openai:v0.32.0", True),
        ("vllm/vllm-openai:v0.33.0", False),  # torch 2.14.0 beside a wheel for 2.13.0
        ("vllm/vllm-openai:v0.33.0-cu129", None),  # a wheel of LMCache's own for CUDA 12.9
        ("vllm/vllm-openai:v0.29.0", True),
        ("vllm/vllm-openai:v0.29.0-cu129", False),
        ("vllm/vllm-openai:v0.27.1", False),  # torch 2.13.0 beside a wheel for 2.11.0
        ("vllm/vllm-openai:v0.26.0", True),
        ("vllm/vllm-openai:v0.23.0", True),
        ("vllm/vllm-openai:v0.22.0", None),
        ("lmcache/vllm-openai:v0.5.6", True),
        ("lmcache/sglang:v0.5.6", True),
        ("lmsysorg/sglang:v0.5.23", False),
        ("vllm/vllm-openai:latest", None),
    ],
)
def test_images_with_native_code(image, answer):
    assert native(contents(image)) is answer


def test_rows_are_complete():
    assert len({r.path for r in REPOSITORIES}) == len(REPOSITORIES)
    for repository in REPOSITORIES:
        assert repository.engine in ENGINES and repository.source
    for engine in ENGINES:
        versions = [release.version for release in releases(engine)]
        assert versions == sorted(set(versions), key=Version)
        for version in versions:
            for cuda in ("", "12.9", "13.0"):
                facts = own.packages(engine, version, "cuda", cuda)
                assert set(facts) == set(PACKAGES)
                for fact in facts.values():
                    whole(fact)
            for accelerator in ("rocm", "xpu", "cpu", "npu"):
                for fact in own.packages(engine, version, accelerator).values():
                    whole(fact)


def whole(fact):
    assert fact.source and fact.known in (STATED, DERIVED, UNKNOWN)
    assert (fact.known == UNKNOWN) == (fact.versions is None)
    if fact.versions:
        assert list(fact.versions) == sorted(set(fact.versions), key=Version)


@pytest.mark.parametrize("engine", ENGINES)
def test_newest_release_matches_its_sources(engine):
    newest = document(FOLDER / f"{engine.lower()}.yaml").texts["newest"]
    assert newest == releases(engine)[-1].version == known_versions(engine)[-1]


def test_lmcache_of_a_stock_image_has_a_build_row():
    bundled = {v for release in releases(VLLM) for v in release.holds["lmcache"]}
    assert bundled <= {wheel.lmcache for wheel in WHEELS}


@given(st.text("abcdeluvimrsng0123456789.-_/:@", max_size=40))
def test_never_raises(text):
    for image in (
        text,
        f"vllm/vllm-openai:{text}",
        f"lmcache/vllm-openai:{text}",
        f"sglang:{text}",
    ):
        found = contents(image)
        assert found is None or isinstance(found, Contents)
