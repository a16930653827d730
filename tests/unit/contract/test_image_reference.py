"""Image references, whole."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from function.contract.image_reference import ImageReference

DIGEST = "sha256:" + "0" * 64
WHOLE = [
    ("vllm/vllm-openai:v0.33.0", ("", "vllm/vllm-openai", "v0.33.0", "")),
    ("vllm/vllm-openai", ("", "vllm/vllm-openai", "", "")),
    ("ubuntu", ("", "ubuntu", "", "")),
    ("ubuntu:24.04", ("", "ubuntu", "24.04", "")),
    ("docker.io/vllm/vllm-openai:latest", ("docker.io", "vllm/vllm-openai", "latest", "")),
    ("localhost/vllm-openai:v1", ("localhost", "vllm-openai", "v1", "")),
    ("localhost:5000/vllm-openai", ("localhost:5000", "vllm-openai", "", "")),
    ("registry:5000/a/b/c:t", ("registry:5000", "a/b/c", "t", "")),
    ("10.0.0.1:443/c:t", ("10.0.0.1:443", "c", "t", "")),
    (f"ghcr.io/llm-d/llm-d-cuda@{DIGEST}", ("ghcr.io", "llm-d/llm-d-cuda", "", DIGEST)),
    (f"r.io:80/a/b:t@{DIGEST}", ("r.io:80", "a/b", "t", DIGEST)),
    (f"sglang@{DIGEST}", ("", "sglang", "", DIGEST)),
    ("nvcr.io/nvidia/vllm:26.08-py3", ("nvcr.io", "nvidia/vllm", "26.08-py3", "")),
    ("123456789012.dkr.ecr.us-east-1.amazonaws.com/docker-hub/vllm/vllm-openai:v0.30.0",
     ("123456789012.dkr.ecr.us-east-1.amazonaws.com", "docker-hub/vllm/vllm-openai", "v0.30.0",
      "")),
    ("", ("", "", "", "")),
    ("a/b/", ("", "a/b/", "", "")),
    (":tag", ("", "", "tag", "")),
    ("@", ("", "", "", "")),
]  # fmt: skip


@pytest.mark.parametrize(("reference", "parts"), WHOLE)
def test_parts_of_a_reference(reference, parts):
    found = ImageReference.parse(reference)
    assert (found.registry, found.path, found.tag, found.digest) == parts


@pytest.mark.parametrize(
    ("reference", "path", "fits"),
    [
        ("vllm/vllm-openai:v0.33.0", "vllm/vllm-openai", True),
        ("vllm/vllm-openai:v0.33.0", "vllm-openai", True),
        ("mirror.corp:5000/hub/vllm/vllm-openai", "vllm/vllm-openai", True),
        ("myvllm/vllm-openai", "vllm/vllm-openai", False),
        ("vllm.corp/vllm-openai", "vllm.corp/vllm-openai", False),
        ("vllm/vllm-openai-cpu", "vllm-openai", False),
        ("anything", "", True),
    ],
)
def test_reference_ends_with_a_path(reference, path, fits):
    assert ImageReference.parse(reference).ends_with(path) is fits


words = st.text("abc019-_./:@ ", max_size=24)


@given(words)
def test_never_raises_and_loses_nothing(text):
    found = ImageReference.parse(text)
    again = found.repository + (f":{found.tag}" if found.tag else "")
    again += f"@{found.digest}" if found.digest else ""
    assert ImageReference.parse(again) == found
