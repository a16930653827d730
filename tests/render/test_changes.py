"""Changes between streams of documents: exact, small, and refused where they do not fit."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kv_offload.render import emit, files
from tests.render import changes

_WORDS = st.sampled_from(
    [
        "a",
        "b",
        "",
        "a b",
        'q"',
        "]",
        "=",
        "x.y/z",
        "0",
        "é",
        "#2",
        '{"a":1}',
        '{"a":{"name":"é"}}',
        '{"a":1.0}',
    ]
)
_SCALARS = st.none() | st.booleans() | st.integers(0, 2) | st.floats(0, 2) | _WORDS
_KEYS = st.sampled_from(["name", "type", "mountPath", "key", "x", "a.b/c", "", '"', "0", "message"])
_VALUES = st.recursive(
    _SCALARS,
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(_KEYS, inner, max_size=4),
    max_leaves=16,
)
_METADATA = st.fixed_dictionaries({"name": _WORDS}, optional={"namespace": _WORDS, "l": _VALUES})
_DOCUMENTS = st.fixed_dictionaries(
    {"kind": st.sampled_from(["A", "B"])},
    optional={"metadata": _METADATA | _SCALARS, "spec": _VALUES, "message": _WORDS},
)
_STREAMS = st.lists(_DOCUMENTS, max_size=4)


def _edit(data: st.DataObject, value: Any) -> Any:
    """The value with a little of it changed: most of what streams of passes differ by."""
    match value:
        case dict() if value:
            key = data.draw(st.sampled_from(sorted(value)))
            return value | {key: _edit(data, value[key])}
        case list() if value:
            at = data.draw(st.integers(0, len(value) - 1))
            how = data.draw(st.sampled_from(["edit", "drop", "double", "swap"]))
            items = {"edit": [_edit(data, value[at])], "drop": [], "double": [value[at]] * 2}
            if how == "swap":
                return [*value[at:], *value[:at]]
            return [*value[:at], *items[how], *value[at + 1 :]]
        case _:
            return data.draw(_VALUES)


def _through_yaml(documents: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return files.parse(emit.to_yaml(documents), "changes")


def _assert_exact(before: list[Any], after: list[Any]) -> None:
    found = changes.between(before, after)
    given = emit.to_yaml(before)
    assert emit.to_yaml(changes.apply(before, found)) == emit.to_yaml(after)
    assert emit.to_yaml(changes.apply(before, _through_yaml(found))) == emit.to_yaml(after)
    assert emit.to_yaml(before) == given
    assert (found == []) == (emit.to_yaml(before) == emit.to_yaml(after))


@given(_STREAMS, _STREAMS)
def test_changes_turn_any_stream_into_any_other(before: list[Any], after: list[Any]) -> None:
    _assert_exact(emit.canonical(before), emit.canonical(after))


@given(_STREAMS.filter(bool), st.data())
def test_changes_apply_to_edited_streams(before: list[Any], data: st.DataObject) -> None:
    after = [document for document in _edit(data, before) if isinstance(document, dict)]
    _assert_exact(emit.canonical(before), emit.canonical(after))


_STEPS = _WORDS | st.integers(0, 99) | st.tuples(st.sampled_from(["name", "type"]), _WORDS)


@given(st.lists(_STEPS, min_size=1, max_size=5).map(tuple))
def test_printed_path_parses_equal(path: changes.Path) -> None:
    assert changes.parse(changes.show(path)) == path


TIER = {"kind": "Tier", "metadata": {"name": "chat", "namespace": "kv"}}
ARGS = ["--port", "1", "--size", "1", "--size", "2", "--last"]
REDIS = {"name": "redis", "image": "r"}


def _pod(args: list[str], *more: dict[str, Any], **metadata: Any) -> dict[str, Any]:
    containers = [{"name": "agent", "args": args}, *more]
    return {
        "kind": "Pod",
        "metadata": {"name": "p", **metadata},
        "spec": {"containers": containers},
    }


# (before, after, changes)
EXAMPLES = {
    "nothing": ([TIER], [TIER], []),
    "values": (
        [TIER | {"status": {"ready": 0, "why": "Starting"}}],
        [TIER | {"status": {"ready": 3, "seen": {"a": 1}}}],
        [
            {
                "changed": "Tier kv/chat",
                "gone": ["status.why"],
                "set": {"status.ready": 3, "status.seen": {"a": 1}},
            }
        ],
    ),
    "1 is not true": (
        [TIER | {"a": 1}],
        [TIER | {"a": True}],
        [{"changed": "Tier kv/chat", "set": {"a": True}}],
    ),
    "an annotation": (
        [_pod([], annotations={"a.b/c": "1"})],
        [_pod([], annotations={"a.b/c": "2"})],
        [{"changed": "Pod p", "set": {'metadata.annotations["a.b/c"]': "2"}}],
    ),
    "a word of JSON in a text": (
        [_pod([], annotations={"record": '{"a":1,"b":{"c":2}}'})],
        [_pod([], annotations={"record": '{"a":1,"b":{"c":3}}'})],
        [{"changed": "Pod p", "set": {"metadata.annotations.record(json).b.c": 3}}],
    ),
    "JSON that is not written as we write it": (
        [TIER | {"a": '{"b": 1}'}],
        [TIER | {"a": '{"b": 2}'}],
        [{"changed": "Tier kv/chat", "set": {"a": '{"b": 2}'}}],
    ),
    "an item by its name": (
        [_pod(ARGS, REDIS)],
        [_pod(ARGS, REDIS | {"image": "s"})],
        [{"changed": "Pod p", "set": {"spec.containers[name=redis].image": "s"}}],
    ),
    "items that come and go": (
        [_pod(ARGS, REDIS)],
        [_pod(ARGS, {"name": "sweeper"})],
        [
            {
                "changed": "Pod p",
                "lists": {"spec.containers": [{"gone": ["redis"], "new": [{"name": "sweeper"}]}]},
            }
        ],
    ),
    "words after the first that stands so": (
        [_pod(ARGS)],
        [_pod(["--port", "1", "--size", "1", "--new", "--size", "--last"])],
        [
            {
                "changed": "Pod p",
                "lists": {
                    "spec.containers[name=agent].args": [
                        {"after": ["--size", "1"], "new": ["--new"]},
                        {"after": ["--size"], "gone": ["2"]},
                    ]
                },
            }
        ],
    ),
    "documents": (
        [TIER, _pod(ARGS), {"kind": "Result", "message": "a"}],
        [TIER, {"kind": "New", "metadata": {"name": "n"}}, {"kind": "Result", "message": "b"}],
        [
            {"removed": "Pod p"},
            {"removed": "Result a"},
            {
                "added": "New n",
                "after": "Tier kv/chat",
                "document": {"kind": "New", "metadata": {"name": "n"}},
            },
            {
                "added": "Result b",
                "after": "New n",
                "document": {"kind": "Result", "message": "b"},
            },
        ],
    ),
}


@pytest.mark.parametrize("name", EXAMPLES)
def test_changes_are_minimal(name: str) -> None:
    before, after, expected = EXAMPLES[name]
    assert changes.between(before, after) == expected
    _assert_exact(before, after)


def test_inserted_word_does_not_shift_later_changes() -> None:
    before, after = [_pod(ARGS)], [_pod([*ARGS, "--level"])]
    longer = [
        [_pod(["--new", "1", *pod["spec"]["containers"][0]["args"]])] for (pod,) in (before, after)
    ]
    assert changes.between(*longer) == changes.between(before, after)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"removed": "Pod q"}, "no document 'Pod q'"),
        ({"added": "Pod q", "after": "Pod r", "document": {}}, "no document 'Pod r'"),
        ({"changed": "Pod p", "sets": {}}, "not a change"),
        ({"changed": "Pod p", "gone": ["spec.x"]}, "no spec.x to go"),
        ({"changed": "Pod p", "set": {"spec.x.y": 1}}, "no spec.x.y"),
        ({"changed": "Pod p", "set": {"spec.containers[name=x].y": 1}}, "no spec.containers"),
        ({"changed": "Pod p", "set": {"spec..x": 1}}, "not a path"),
        ({"changed": "Pod p", "lists": {"spec.containers": [{"gone": ["x"]}]}}, "x'"),
    ],
)
def test_changes_of_another_stream_are_refused(change: dict[str, Any], said: str) -> None:
    with pytest.raises(changes.ChangesError, match=said):
        changes.apply([_pod(ARGS)], [change])
