"""The record annotation: complete, canonical, bounded, and safe to read when malformed."""

import base64
import json
import random
import string
import tracemalloc
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

import programs
from function import names
from function.contract.injection import Injection, SharedMemory
from function.pods.record import (
    MAX_BYTES,
    UNWIRED,
    WIRED,
    Record,
    TemplateRecord,
    digest,
    load,
    read,
)
from function.problems import Refused

INJECTION = Injection(
    backend="LMCache",
    connector={"kv_connector": "LMCacheMPConnector", "kv_role": "kv_both"},
    flags={"--page-size": "64", "--enable-x": None},
    env=({"name": "A", "value": "1"},),
    shm=SharedMemory(bytes=5),
    node_selector={"zone": "a"},
)
FULL = Record(
    state=WIRED,
    tier="modelplane-system/chat",
    backend="LMCache",
    engines={"": {"engine": "vLLM", "engineSource": "argv", "identity": "0123456789ab"}},
    templates={"spec.template": TemplateRecord(INJECTION, "engine", "chat-files")},
)
CHOICE = Record(
    state=UNWIRED, tier="a/b", policy="Optional", template=digest({"spec.template": {}})
)


@pytest.mark.parametrize("record", [FULL, CHOICE], ids=["wired", "unwired"])
def test_dumped_record_loads_equal(record):
    text = record.text
    assert load(text) == (record, "")
    assert load(text)[0].text == text
    assert read({"annotations": {names.ANNOTATION_RECORD: text}}) == (record, "")
    assert record.wired == (record.state == WIRED)


def test_the_text_is_canonical_and_pinned():
    assert CHOICE.text == (
        '{"policy":"Optional","state":"Unwired","template":"26d8f627195ab421","tier":"a/b",'
        '"version":1}'
    )
    assert "\n" not in FULL.text


def random_text(length: int, seed: int = 0) -> str:
    """Text of which no compression leaves less than three quarters."""
    return "".join(random.Random(seed).choices(string.printable[:64], k=length))


def test_record_that_could_not_be_written_again_is_unreadable():
    files = {"f": random_text(12000, 1), "g": random_text(12000, 2)}
    template = {"injection": {"files": files}, "container": "engine"}
    data = {"version": 1, "state": WIRED, "tier": "a/b", "templates": {"p": template}}
    assert load(json.dumps(data)) == (None, "the record is too long to be one of ours")


def test_a_text_of_several_templates_is_recorded_once():
    text = random_text(12000)
    one, other = (Injection(files={"class.py": text, "own": own}) for own in ("a", "b"))
    templates = {f"spec.{i}": TemplateRecord(each) for i, each in enumerate((one, one, other))}
    record = Record(state=WIRED, tier="a/b", templates=templates)
    assert len(record.text) < 14000
    assert load(record.text) == (record, "")
    same_name = {"spec.3": TemplateRecord(Injection(files={"class.py": "y"}))}
    mixed = Record(state=WIRED, tier="a/b", templates=same_name | templates)
    assert load(mixed.text) == (mixed, "")


def test_texts_of_earlier_builds_are_read():
    data = {"version": 1, "state": WIRED, "tier": "a/b", "texts": {"f": "x"}}
    data["templates"] = {"p": {"injection": {"files": {"f": ""}}}}
    found, _ = load(json.dumps(data))
    assert found is not None and found.templates["p"].injection.files == {"f": "x"}


def test_text_of_many_templates_is_recorded_compressed():
    """Two roles of a leader and a worker, each with a class of ours and settings."""
    made = Injection(
        files={"class.py": programs.module("lmcache/mp_connector.py")},
        env=({"name": "SETTINGS", "value": "x" * 900},),
    )
    templates = {f"spec.{i}": TemplateRecord(made) for i in range(4)}
    record = Record(state=WIRED, tier="a/b", templates=templates)
    assert len(record.text) < 12 * 1024
    assert load(record.text) == (record, "")
    data = json.loads(record.text)
    for size in (100, 4 * MAX_BYTES + 1, 64 << 20):
        bomb = zlib.compress(b"[" * size)
        for forged in ("~", data["packed"][:-20], base64.b85encode(bomb).decode()):
            assert load(json.dumps({**data, "packed": forged}))[0] is None


def test_texts_of_one_template_are_recorded_compressed():
    """An engine with three classes of ours."""
    paths = ("vllm/keyed_connectors.py", "native/checked_files.py", "native/bounded_bucket.py")
    made = Injection(files={path: programs.module(path) for path in paths})
    record = Record(state=WIRED, tier="a/b", templates={"spec": TemplateRecord(made)})
    assert len(record.text) < 11 * 1024
    assert load(record.text) == (record, "")


def test_texts_that_could_not_be_unpacked_again_are_refused():
    made = Injection(files={"f": "x" * (4 * MAX_BYTES)})
    with pytest.raises(Refused):
        _ = Record(state=WIRED, tier="a/b", templates={"spec": TemplateRecord(made)}).text


def test_a_record_that_is_short_enough_keeps_its_bytes():
    twice = {path: TemplateRecord(Injection(files={"f": "x"})) for path in ("a", "b")}
    assert '"texts"' not in Record(state=WIRED, tier="a/b", templates=twice).text


def test_digest_depends_on_the_content():
    assert digest({"a": {"x": 1, "y": [1, 2]}}) == digest({"a": {"y": [1, 2], "x": 1}})
    assert digest({"a": {"y": [2, 1]}}) != digest({"a": {"y": [1, 2]}})


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (None, "there is no record"),
        ("", "there is no record"),
        ("{", "not JSON"),
        ("[" * 60000, "not JSON"),
        ("x" * 70000, "too long"),
        ("[]", "no version"),
        ("{}", "no version"),
        ('{"version":2}', "a newer function wrote it"),
        ('{"version":1}', "cannot be read"),
        ('{"version":1,"state":"Maybe","tier":"a/b"}', "unknown state"),
        ('{"version":1,"state":"Wired","tier":7}', "not text"),
        ('{"version":1,"state":"Wired","tier":"a/b","templates":[]}', "cannot be read"),
        (
            '{"version":1,"state":"Wired","tier":"a/b","templates":{"p":{"injection":{"new":1}}}}',
            "cannot be read",
        ),
    ],
)
def test_unusable_record_gives_its_reason(text, why):
    record, reason = load(text)
    assert record is None
    assert why in reason


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=8,
)


@given(
    st.fixed_dictionaries(
        {"version": st.just(1), "state": st.just("Wired"), "tier": st.just("a/b")},
        optional={
            "templates": JSON | st.dictionaries(st.text(max_size=2), JSON),
            "engines": JSON,
            "policy": JSON,
        },
    )
)
def test_malformed_fields_never_raise(data):
    record, why = load(json.dumps(data))
    assert (record is None) == bool(why)


@given(st.text())
def test_any_text_never_raises(text):
    assert load(text)[0] is None


def test_a_record_is_bounded():
    long = Injection(files={"f": random_text(25000)})
    with pytest.raises(Refused, match="16384") as refused:
        _ = Record(state=WIRED, tier="a/b", templates={"p": TemplateRecord(long)}).text
    assert refused.value.path == f"metadata.annotations[{names.ANNOTATION_RECORD}]"


def test_texts_that_many_templates_share_cost_no_more_than_a_record_may():
    """One text of 64 KiB for each of 1,000 templates took hundreds of MB."""
    text = base64.b85encode(zlib.compress(json.dumps({"f": "x" * 65_000}).encode())).decode()
    each = {"injection": {"backend": "", "files": {"f": ""}}}
    forged = {
        "version": 1,
        "state": WIRED,
        "tier": "kv/chat",
        "packed": text,
        "templates": {str(number): each for number in range(1_000)},
    }
    tracemalloc.start()
    found, problem = load(json.dumps(forged, separators=(",", ":")))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert (found, problem) == (
        None,
        "the record cannot be read: ValueError: its texts are too long",
    )
    assert peak < 8 << 20
