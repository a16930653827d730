"""The step is inserted without touching anything else."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kv_offload.render.append import append_step
from kv_offload.render.files import InputError, parse

HEAD = """\
# ours
apiVersion: apiextensions.crossplane.io/v1
kind: Composition
metadata: {name: replicas}   # flow
spec:
  compositeTypeRef: {apiVersion: modelplane.ai/v1alpha1, kind: ModelReplica}
  mode: Pipeline
  pipeline:
"""
STEP = {"step": "kv-offload", "functionRef": {"name": "function-kv-offload"}}
S = "  - step: a\n    functionRef: {name: f}"


def _append(text: str) -> str:
    return append_step(text, "c.yaml", "kv-offload", "function-kv-offload")


@pytest.mark.parametrize(
    ("tail", "added"),
    [
        (
            S + "\n",
            "  - step: kv-offload\n    functionRef:\n      name: function-kv-offload\n",
        ),
        (
            "    -   step: a\n        functionRef:\n            name: f  # last\n",
            "    -   step: kv-offload\n        functionRef:\n"
            "            name: function-kv-offload\n",
        ),
    ],
)
def test_indentation_follows_the_last_step(tail: str, added: str) -> None:
    assert _append(HEAD + tail) == HEAD + tail + added


@pytest.mark.parametrize(
    "tail",
    [
        S,  # no line end
        S + "\n\n# the end\n",
        S + "\n    input:\n      t: |\n       x\n\n       # y\n\n",
        S + "\n    input:\n      t: >-\n       x\n       y\n...\n",
        S + "\n    input:\n      t: 'x\n\n        y'\n",
        S + "\n    input: {t: [1,\n      2]}\n  writeX: n\n",
        "  - functionRef: {name: f}\n    step: a\n---\napiVersion: v1\nkind: Other\n",
        "  - step: a\n    functionRef: &f {name: f}\n  - step: b\n    functionRef: *f\n",
    ],
)
def test_only_lines_are_added(tail: str) -> None:
    text = HEAD + tail
    changed = _append(text)
    before, after = parse(text, "x"), parse(changed, "x")
    before[0]["spec"]["pipeline"].append(STEP)
    assert after == before
    assert [line for line in changed.splitlines() if line in text.splitlines()] == text.splitlines()
    assert _append(changed) == changed


@given(st.lists(st.sampled_from(["# c", "", "  # d", "      # e"]), max_size=4), st.booleans())
def test_comments_and_blank_lines_stay(between: list[str], windows: bool) -> None:
    steps = "\n".join(["  - step: a", *between, "    functionRef:", "      name: f", *between, ""])
    text = HEAD + steps
    if windows:
        text = text.replace("\n", "\r\n")
    changed = _append(text)
    assert parse(changed, "x")[0]["spec"]["pipeline"][-1] == STEP
    kept = changed.splitlines(keepends=True)
    assert len(kept) == len(text.splitlines()) + 3
    assert all(line.endswith("\r\n") for line in kept) == windows


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("apiVersion: v1\nkind: Other\n", "0 Compositions, expected one"),
        (HEAD + "  - {step: a}\n---\n" + HEAD, "2 Compositions"),
        (HEAD + "    []\n", "spec.pipeline is empty"),
        (HEAD + "  - {}\n", "spec.pipeline[0]: set step and functionRef.name"),
        (HEAD + "  - compose\n", "spec.pipeline[0]: set step and functionRef.name"),
        (HEAD + "    [{step: a, functionRef: {name: f}}]\n", "written in brackets"),
        (HEAD.replace("Pipeline", "Resources") + "  - {step: a}\n", "spec.mode is 'Resources'"),
        (HEAD + "  - {step: kv-offload, functionRef: {name: f}}\n", "choose another name"),
    ],
)
def test_unsupported_compositions_are_refused(text: str, message: str) -> None:
    with pytest.raises(InputError, match=re.escape(message)):
        _append(text)


@pytest.mark.parametrize("step", ["a: b", "*other", "1"])
def test_name_that_yaml_reads_otherwise_is_refused(step: str) -> None:
    with pytest.raises(InputError, match="cannot be inserted safely"):
        append_step(HEAD + "  - {step: a}\n", "c.yaml", step, "f")
