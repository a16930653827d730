"""The corpus: whole workloads in, what must come out, and what must be started.

A case (one document in `cases/*.yaml`) names a tier of `tiers.py` and holds
- `workload`: a manifest; `given`: the step's Input, if any;
- `argv`: {template path: the starts of engines, each a list of words}: the exact command lines that
  run when the wired container is started, by a real shell where it is a script. Words that are
  mappings stand for JSON. `<tier>` stands for the tier's own connector. The templates named here
  are exactly those that are wired; [] is a template of the gang without an engine in its argv;
- `serve`: what an `llm_configs` entry of a RayService must hold besides;
- `container`: the serving container's index, 0 by default; `env`, `memory`: what else changes;
- or `refused`: the reason, and words of its message.
"""

import contextlib
import json
from copy import deepcopy
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from function.api.consumer import KVOffloadTierRef
from function.api.input import Input
from function.backends.base import Description, Tier
from function.problems import Refused
from function.wiring import engines, target, wire, workloads
from tests.unit.wiring.command import shells
from tests.wiring import tiers

Json = dict[str, Any]


def _cases() -> dict[str, Json]:
    found: dict[str, Json] = {}
    for path in sorted(Path(__file__).with_name("cases").glob("*.yaml")):
        for case in yaml.safe_load_all(path.read_text()):
            name = f"{path.stem}: {case['name']}"
            assert name not in found, f"two cases are called {name}"
            found[name] = case
    return found


CASES = _cases()


class NothingAsked(Exception):
    """No engine in the workload asks for a tier."""


class FixedBackend:
    def __init__(self, tier: str) -> None:
        self.tier = tier

    def connector(self, tier: Tier, engine: Any) -> tuple[str, Any, None]:
        return self.tier, engine, None

    def describe(self, tier: Any) -> Description:
        return Description(outlives_pods=False)

    def inject(self, tier: Tier, engine: Any) -> Any:
        return tiers.INJECTIONS[self.tier]


# Versions are the gate's own tests' business: the corpus holds old, new and unknown ones.
OPEN_GATE = SimpleNamespace(
    check=lambda *asked: SimpleNamespace(features=frozenset(), warnings=()),
)


@pytest.fixture
def wiring(monkeypatch: pytest.MonkeyPatch):
    """Wires a case's workload: (the manifest, its record)."""

    def run(case: Json, manifest: Json) -> tuple[Json, Any]:
        monkeypatch.setattr(wire, "backend", lambda name: FixedBackend(case["tier"]))
        monkeypatch.setattr(wire, "gate", OPEN_GATE, raising=False)
        step = Input.model_validate(case.get("given", {}))
        ref = KVOffloadTierRef(name="chat")
        found = target.target("engine", manifest, ref, step, "")
        if found is None:
            raise NothingAsked
        if found.refused is not None:
            raise found.refused
        spec = type("Spec", (), {"backend": tiers.INJECTIONS[case["tier"]].backend})()
        done = wire.wire(found, Tier("chat", "platform", "chat-00000", spec), step, "chat-files")
        replayed = wire.replay(found, done.record, step)
        assert replayed == done.manifest
        return done.manifest, done.record

    return run


def _words(case: Json, start: list[Any]) -> list[Any]:
    return [tiers.connector(case["tier"]) if word == "<tier>" else word for word in start]


def _parsed(words: list[str], wanted: list[Any]) -> list[Any]:
    """The words, those as JSON that are mappings in `wanted`."""
    if len(words) != len(wanted):
        return words
    return [json.loads(w) if isinstance(x, dict) else w for w, x in zip(words, wanted, strict=True)]


def _starts(container: Json, folder: Path) -> list[list[str]]:
    """What the container starts: by a real shell where its command is one."""
    env = {e["name"]: e["value"] for e in container.get("env", ()) if "value" in e}
    command = container.get("command")
    if not command:
        call = engines.image_call(container, {})
        command = list(call.entrypoint) if call else []
    argv = [*command, *container.get("args", ())]
    shell = Path(argv[0]).name if argv else ""
    if shell in ("sh", "bash"):
        # A login shell would set its own PATH and find no recorder.
        argv = [word.replace("-lc", "-c") if i == 1 else word for i, word in enumerate(argv)]
        shells.install(folder)
        container = {"command": argv, "env": [{"name": k, "value": v} for k, v in env.items()]}
        return shells.run(container, "dash" if shell == "sh" else shell, folder, {})
    return [[shells.expand(word, env) for word in argv]]


def _find(case: Json, manifest: Json) -> workloads.Workload:
    paths = [p["path"] for p in case.get("given", {}).get("paths", ())]
    found = workloads.find(manifest, paths)
    assert found is not None
    return found


def _expected(case: Json) -> Json:
    """The workload as it must come out, the engines' command and args as they were."""
    manifest = deepcopy(case["workload"])
    for path in case["argv"]:
        template = next(t for t in _find(case, manifest).templates if t.path == path)
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
        manifest = workloads.replace(manifest, path, body)
    return manifest


def _without_command(case: Json, manifest: Json) -> Json:
    for path in case["argv"]:
        template = next(t for t in _find(case, manifest).templates if t.path == path)
        body = deepcopy(dict(template.body))
        for key in ("command", "args"):
            body["spec"]["containers"][case.get("container", 0)].pop(key, None)
        manifest = workloads.replace(manifest, path, body)
    return manifest


WIRED = [name for name, case in CASES.items() if "argv" in case]
REFUSED = [name for name, case in CASES.items() if "refused" in case]


def test_the_corpus_is_as_large_as_it_says():
    assert len(CASES) == len(WIRED) + len(REFUSED)
    templates = sum(len(_find(c, c["workload"]).templates) for c in CASES.values())
    assert templates >= 60, templates


@pytest.mark.parametrize("name", WIRED)
def test_wired(name, wiring, tmp_path):
    case = CASES[name]
    before = deepcopy(case["workload"])
    manifest, _ = wiring(case, case["workload"])
    assert case["workload"] == before
    found = {t.path: t for t in _find(case, manifest).templates}
    original = {t.path: t for t in _find(case, before).templates}
    for path, starts in case["argv"].items():
        container = found[path].body["spec"]["containers"][case.get("container", 0)]
        if not starts:
            untouched = original[path].body["spec"]["containers"][case.get("container", 0)]
            assert container.get("command") == untouched.get("command")
            assert container.get("args") == untouched.get("args")
            continue
        wanted = [_words(case, start) for start in starts]
        got = _starts(container, tmp_path)
        assert len(got) == len(wanted), got
        assert [_parsed(g, w) for g, w in zip(got, wanted, strict=True)] == wanted
    entries = [t.body for t in found.values() if t.kind == workloads.SERVE]
    for entry in entries:
        kwargs = case["serve"]["engine_kwargs"]
        wanted = {
            k: tiers.connector(case["tier"]) if v == "<tier>" else v for k, v in kwargs.items()
        }
        assert entry["engine_kwargs"] == wanted
        manifest["spec"]["serveConfigV2"] = before["spec"]["serveConfigV2"]
    assert _without_command(case, manifest) == _without_command(case, _expected(case))


@pytest.mark.parametrize("name", WIRED)
def test_wiring_again_is_byte_identical(name, wiring):
    case = CASES[name]
    first, record = wiring(case, case["workload"])
    again, record_again = wiring(case, first)
    assert json.dumps(again) == json.dumps(first)
    assert record_again.engines == record.engines
    assert json.dumps(wiring(case, deepcopy(case["workload"]))[0]) == json.dumps(first)


RUBBISH = (None, 1, "x", [], {}, [1], {"a": 1})


@settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_rubbish_in_a_workload_raises_nothing_but_refused(wiring, data):
    case = CASES[data.draw(st.sampled_from(sorted(CASES)))]
    manifest = deepcopy(case["workload"])
    node, key = manifest, "spec"
    while isinstance(node[key], dict | list) and node[key] and data.draw(st.integers(0, 7)):
        node = node[key]
        key = data.draw(
            st.sampled_from(sorted(node) if isinstance(node, dict) else range(len(node)))
        )
    node[key] = deepcopy(data.draw(st.sampled_from(RUBBISH)))
    with contextlib.suppress(Refused, NothingAsked):
        wiring(case, manifest)


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name, wiring):
    case = CASES[name]
    before = deepcopy(case["workload"])
    with pytest.raises(Refused) as refused:
        wiring(case, case["workload"])
    assert refused.value.reason == case["refused"]["reason"], str(refused.value)
    for words in case["refused"]["says"]:
        assert words in str(refused.value)
    assert case["workload"] == before
