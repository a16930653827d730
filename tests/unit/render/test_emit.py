"""The canonical emitter and the loader: nothing is lost, and what is equal prints equal."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kv_offload.render import emit, files

_TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
_SCALARS = st.none() | st.booleans() | st.integers(-(2**53), 2**53) | _TEXT
_VALUES = st.recursive(
    _SCALARS | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_TEXT, inner, max_size=4),
    max_leaves=12,
)
_DOCUMENTS = st.dictionaries(_TEXT, _VALUES, min_size=1, max_size=4)


@given(_DOCUMENTS)
def test_yaml_reads_back_as_what_was_emitted(document: dict) -> None:
    assert files.parse(emit.to_yaml([document]), "x") == emit.canonical([document])


@given(st.lists(_DOCUMENTS, max_size=3))
def test_emitting_what_was_read_back_changes_no_byte(documents: list[dict]) -> None:
    text = emit.to_yaml(documents)
    assert emit.to_yaml(files.parse(text, "x")) == text


@given(st.lists(_DOCUMENTS, max_size=3))
def test_json_is_a_list_of_the_same_documents(documents: list[dict]) -> None:
    assert json.loads(emit.to_json(documents))["items"] == emit.canonical(documents)


# What sigs.k8s.io/yaml (checked through crossplane 2.5.0) reads as something else than a string.
_AMBIGUOUS = (
    "y Y n N yes No on OFF true ~ null 1 0o17 017 0x1F 0b1 1_000 1e3 1.5 .5 -1 +1 .inf .NaN"
    " 2024-01-01 2024-01-01T00:00:00Z 1:30 << ="
)


@pytest.mark.parametrize("text", ["", *_AMBIGUOUS.split()])
def test_ambiguous_strings_are_quoted(text: str) -> None:
    line = emit.to_yaml([{"k": text}]).splitlines()[1]
    assert line == f"k: '{text}'"
    assert files.parse(line, "x") == [{"k": text}]


@pytest.mark.parametrize(
    ("plain", "value"),
    [
        ("y", True),
        ("N", False),
        ("off", False),
        ("1e3", 1000),
        ("0o17", 15),
        ("017", 15),
        ("0x1F", 31),
        ("1_000", 1000),
        ("1:30", "1:30"),
        ("2024-01-01", "2024-01-01"),
        ("2024-01-01T00:00:00Z", "2024-01-01T00:00:00Z"),
        ("1.5.2", "1.5.2"),
        ("08", 8),
        ("~", None),
    ],
)
def test_plain_scalars_are_read_as_kubernetes_reads_them(plain: str, value: object) -> None:
    (document,) = files.parse(f"k: {plain}", "x")
    assert document == {"k": value}


def test_whole_floats_are_integers_and_keys_strings() -> None:
    documents = [{"a": 3.0, "b": 2.5, "c": [1.0, {"d": 2.0**60}], 7: True}]
    assert emit.canonical(documents) == [{"a": 3, "b": 2.5, "c": [1, {"d": 2.0**60}], "7": True}]


def test_results_come_last_and_sorted() -> None:
    def result(message: str) -> dict:
        return {
            "apiVersion": "render.crossplane.io/v1beta1",
            "kind": "Result",
            "severity": "Normal",
            "reason": "r",
            "message": message,
        }

    others = [{"kind": "B"}, {"kind": "A"}]
    ordered = emit.canonical([result("b"), others[0], result("a"), others[1]])
    assert ordered == [*others, result("a"), result("b")]


def test_multi_line_text_is_a_block() -> None:
    text = emit.to_yaml([{"b": 1, "a": "x\ny\n", "c": [1, {"d": 2}]}])
    assert text == "---\na: |\n  x\n  y\nb: 1\nc:\n- 1\n- d: 2\n"
