"""The corpus: whole workloads, their wired form and the started commands (corpus.py)."""

import contextlib
import json
from copy import deepcopy
from typing import Any

import pytest
from hypothesis import HealthCheck, given, reject, settings
from hypothesis import strategies as st

from function import workloads
from function.pods import record as records
from function.pods import replay
from function.problems import Refused
from function.workloads.model import SERVE
from tests.corpus import tiers
from tests.corpus.corpus import (
    CASES,
    REFUSED,
    WIRED,
    NoRequest,
    find,
    starts,
    targeted,
    wired,
    words,
)

Json = dict[str, Any]


def _parsed(words: list[str], wanted: list[Any]) -> list[Any]:
    """The words, those as JSON that are mappings in `wanted`."""
    if len(words) != len(wanted):
        return words
    return [json.loads(w) if isinstance(x, dict) else w for w, x in zip(words, wanted, strict=True)]


def _expected(case: Json) -> Json:
    """The workload as it must come out, the engines' command and args as they were."""
    manifest = deepcopy(case["workload"])
    for path in case["argv"]:
        template = next(t for t in find(case, manifest).templates if t.path == path)
        index = case.get("container", 0)
        body = tiers.wired(case["tier"], dict(template.body), index)
        container = body["spec"]["containers"][index]
        for variable in case.get("env", ()):
            container.setdefault("env", []).append(variable)
        if "memory" in case:
            container["resources"] = case["memory"]
            body["metadata"].setdefault("annotations", {})["modelplane.ai/kv-offload-added"] = (
                f"memory={tiers.INJECTIONS[case['tier']].memory_bytes}"
            )
        manifest = workloads.replace(manifest, template, body)
    return manifest


def _without_command(case: Json, manifest: Json) -> Json:
    for path in case["argv"]:
        template = next(t for t in find(case, manifest).templates if t.path == path)
        body = deepcopy(dict(template.body))
        for key in ("command", "args"):
            body["spec"]["containers"][case.get("container", 0)].pop(key, None)
        manifest = workloads.replace(manifest, template, body)
    return manifest


def test_corpus_has_its_declared_size():
    assert len(CASES) == len(WIRED) + len(REFUSED)
    templates = sum(len(find(c, c["workload"]).templates) for c in CASES.values())
    assert templates >= 60, templates


@pytest.mark.parametrize("name", WIRED)
def test_wired_workload_equals_the_expected_one(name, tmp_path):
    case = CASES[name]
    before = deepcopy(case["workload"])
    manifest = wired(case, case["workload"]).manifest
    assert case["workload"] == before
    found = {t.path: t for t in find(case, manifest).templates}
    original = {t.path: t for t in find(case, before).templates}
    for path, expected in case["argv"].items():
        container = found[path].body["spec"]["containers"][case.get("container", 0)]
        if not expected:
            untouched = original[path].body["spec"]["containers"][case.get("container", 0)]
            assert container.get("command") == untouched.get("command")
            assert container.get("args") == untouched.get("args")
            continue
        wanted = [words(case, start) for start in expected]
        got = starts(case, container, tmp_path)
        assert len(got) == len(wanted), got
        assert [_parsed(g, w) for g, w in zip(got, wanted, strict=True)] == wanted
    entries = [t.body for t in found.values() if t.kind == SERVE]
    for entry in entries:
        kwargs = case["serve"]["engine_kwargs"]
        wanted = {
            k: tiers.connector(case["tier"]) if v == "<tier>" else v for k, v in kwargs.items()
        }
        assert entry["engine_kwargs"] == wanted
        manifest["spec"]["serveConfigV2"] = before["spec"]["serveConfigV2"]
    assert _without_command(case, manifest) == _without_command(case, _expected(case))


def canonical(manifest: Json) -> str:
    return json.dumps(manifest, sort_keys=True)


def _nodes(value: Any) -> list[Json]:
    """Every mapping of a document, the outer ones first."""
    if isinstance(value, list):
        return [node for item in value for node in _nodes(item)]
    if not isinstance(value, dict):
        return []
    return [value, *(node for item in value.values() for node in _nodes(item))]


def _shuffled(value: Any, data: st.DataObject) -> Any:
    if isinstance(value, list):
        return [_shuffled(item, data) for item in value]
    if not isinstance(value, dict):
        return value
    keys = data.draw(st.permutations(list(value)))
    return {key: _shuffled(value[key], data) for key in keys}


@pytest.mark.parametrize("name", WIRED)
@settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_rewiring_and_replay_are_byte_identical(name, data):
    """With keys in any order and fields that nobody knows: once more, and from the record."""
    case = CASES[name]
    manifest = _shuffled(case["workload"], data)
    nodes = _nodes(manifest["spec"])
    for at in data.draw(st.lists(st.integers(0, len(nodes) - 1), max_size=3)):
        nodes[at]["x-unknown"] = "1"
    before = deepcopy(manifest)
    try:
        first = wired(case, manifest)
    except Refused:
        reject()  # the field stood where it has a meaning
    assert manifest == before
    assert json.dumps(wired(case, deepcopy(manifest)).manifest) == json.dumps(first.manifest)
    again = wired(case, first.manifest)
    assert canonical(again.manifest) == canonical(first.manifest)
    assert again.record.engines == first.record.engines
    recorded, why = records.load(first.record.text)
    assert recorded == first.record, why
    asked, step = targeted(case, manifest)
    replayed = replay.replay(asked, recorded, step)
    assert canonical(replayed) == canonical(first.manifest)


RUBBISH = (None, 1, "x", [], {}, [1], {"a": 1})


@pytest.mark.parametrize("rubbish", [1, "x", {"a": 1}, [1], [None]])
@pytest.mark.parametrize("key", ["command", "args", "image", "env", "name"])
def test_malformed_container_of_an_lmcache_image_raises_only_refused(key, rubbish):
    """A version is looked for in its script, which is read by itself."""
    case = CASES["commands: LMCache's image"]
    manifest = deepcopy(case["workload"])
    (template,) = find(case, manifest).templates
    body = deepcopy(dict(template.body))
    body["spec"]["containers"][0][key] = rubbish
    with contextlib.suppress(Refused, NoRequest):
        wired(case, workloads.replace(manifest, template, body))


@settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_malformed_workload_raises_only_refused(data):
    case = CASES[data.draw(st.sampled_from(sorted(CASES)))]
    manifest = deepcopy(case["workload"])
    node, key = manifest, "spec"
    while isinstance(node[key], dict | list) and node[key] and data.draw(st.integers(0, 7)):
        node = node[key]
        key = data.draw(
            st.sampled_from(sorted(node) if isinstance(node, dict) else range(len(node)))
        )
    node[key] = deepcopy(data.draw(st.sampled_from(RUBBISH)))
    with contextlib.suppress(Refused, NoRequest):
        wired(case, manifest)


@pytest.mark.parametrize("name", REFUSED)
def test_refused_workload_gets_its_reason(name):
    case = CASES[name]
    before = deepcopy(case["workload"])
    with pytest.raises(Refused) as refused:
        wired(case, case["workload"])
    assert refused.value.reason == case["refused"]["reason"], str(refused.value)
    for said in case["refused"]["says"]:
        assert said in str(refused.value)
    assert case["workload"] == before
