"""Every command line of the wiring corpus, held to the engines' own parsers.

Each wired container is started (its script by a real shell, engines replaced by recorders) before
and after wiring, and both command lines go to the real parser. What is effective afterwards must be
what the tier meant, and all else what it was.
"""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from function.engines.vllm.merge import children
from function.problems import Refused
from tests.conformance.clients import Parsed
from tests.corpus import tiers
from tests.corpus.corpus import CASES, REFUSED, WIRED, Json, find, starts, wired

CONFIG = "kv_transfer_config"
TEMPLATES = [(n, path) for n in WIRED for path, expected in CASES[n]["argv"].items() if expected]
# vLLM's CLI says the same before and after wiring: it takes no words behind a bare `--`.
NOT_STARTED = {"commands: before a bare double dash": "unrecognized arguments"}


def engine_argv(argv: list[str]) -> list[str]:
    """The engine's own command line, behind any runners (`tini --`, `env A=1 timeout 5`)."""
    for at, word in enumerate(argv):
        program, then = Path(word).name, argv[at + 1 : at + 2]
        if program in ("vllm", "sglang") and then == ["serve"]:
            return argv[at:]
        if program.startswith("python3") and then == ["-m"]:
            return argv[at:]
    raise AssertionError(f"no engine in {argv}")


def started(case: Json, manifest: Json, path: str, folder: Path) -> list[list[str]]:
    template = next(t for t in find(case, manifest).templates if t.path == path)
    container = template.body["spec"]["containers"][case.get("container", 0)]
    argvs = starts(case, container, folder)
    return [with_file(case, engine_argv(argv), folder) for argv in argvs]


def with_file(case: Json, argv: list[str], folder: Path) -> list[str]:
    """With the file of `--config`, the one text of the ConfigMap that stands beside the case."""
    if "--config" not in argv:
        return argv
    at = argv.index("--config") + 1
    (config_map,) = case["siblings"]
    (text,) = config_map["data"].values()
    file = folder / Path(argv[at]).name
    file.write_text(text)
    return [*argv[:at], str(file), *argv[at + 1 :]]


def parser_of(request: pytest.FixtureRequest, argv: list[str]) -> Any:
    """The service of the engine that `argv` starts."""
    sglang = "sglang" in argv[0] or argv[2].startswith("sglang.")
    return request.getfixturevalue("sglang" if sglang else "vllm")


def same_but(before: Json, after: Json, *names: str) -> None:
    """Two sets of arguments differ in nothing but `names`."""
    assert {k: v for k, v in before.items() if k not in names} == {
        k: v for k, v in after.items() if k not in names
    }


def classes(parsed: Parsed) -> list[str]:
    """The classes that vLLM resolves: NixlConnector is NixlPullConnector there."""
    return [found["name"] for found in parsed.result["connectors"]]


def check_vllm(case: Json, before: Parsed, after: Parsed) -> None:
    """The user's connectors first and as they were, the tier's behind them, all else unchanged."""
    ours, config = tiers.connector(case["tier"]), after.result[CONFIG]
    mine = before.result[CONFIG] or {}
    same_but(before.result["engine_args"], after.result["engine_args"], CONFIG)
    assert before.result["kv_events_config"] == after.result["kv_events_config"]
    # A failed transfer of a pair fails the request, as vLLM has it, unless its author chose.
    moves = any("Nixl" in str(child.get("kv_connector")) for child in children(mine))
    assert config["kv_load_failure_policy"] == (
        mine.get("kv_load_failure_policy", "fail") if moves else "recompute"
    )
    assert config["kv_role"] == mine.get("kv_role", ours["kv_role"])
    users, all_ = children(mine), children(config)
    for was, now in zip(users, all_, strict=False):
        for key in ("kv_connector", "kv_role", "kv_connector_extra_config"):
            assert (now.get(key) or {}) == (was.get(key) or {})
    added = all_[len(users) :]
    theirs = [c for c in classes(before) if c != "MultiConnector"]
    multi = ["MultiConnector"] if len(all_) > 1 else []
    assert classes(after) == [*multi, *theirs, *(c["kv_connector"] for c in added)]
    if not added:  # the user had wired it by hand
        added = [u for u in users if u["kv_connector"] == ours["kv_connector"]]
    (child,) = added
    for key in ("kv_connector", "kv_role", "kv_connector_extra_config", "kv_connector_module_path"):
        assert child.get(key) == ours.get(key)


def check_sglang(case: Json, before: Parsed, after: Parsed) -> None:
    """The tier's flags have the tier's values, before resolution and for the scheduler."""
    flags = {
        flag[2:].replace("-", "_"): "True" if value is None else value
        for flag, value in tiers.INJECTIONS[case["tier"]].flags.items()
    }
    same_but(before.result["given"], after.result["given"], *flags)
    for stage in ("given", "resolved"):
        assert {name: str(after.result[stage][name]) for name in flags} == flags


@pytest.mark.parametrize(("name", "path"), TEMPLATES, ids=[f"{n}: {p}" for n, p in TEMPLATES])
def test_effective_configuration(request, name, path, tmp_path):
    case = CASES[name]
    unwired = started(case, case["workload"], path, tmp_path)
    rewired = started(case, wired(case, case["workload"]).manifest, path, tmp_path)
    assert len(unwired) == len(rewired) == len(case["argv"][path])
    for old, new in zip(unwired, rewired, strict=True):
        parser = parser_of(request, new)
        before, after = parser.parse(old), parser.parse(new)
        if name in NOT_STARTED:
            for parsed in (before, after):
                assert not parsed.ok
                assert NOT_STARTED[name] in parsed.log
            continue
        assert before.ok, (before.error, before.log)
        assert after.ok, (after.error, after.log)
        (check_sglang if case["tier"] == "hicache" else check_vllm)(case, before, after)


SERVED = [name for name in WIRED if "serve" in CASES[name]]


def _serve_argv(manifest: Json) -> list[str]:
    """Ray Serve's keyword arguments of the engine, as the flags they are in vLLM."""
    (application,) = yaml.safe_load(manifest["spec"]["serveConfigV2"])["applications"]
    (entry,) = application["args"]["llm_configs"]
    words = ["vllm", "serve", entry["model_loading_config"]["model_source"]]
    for name, value in entry["engine_kwargs"].items():
        text = value if isinstance(value, str) else json.dumps(value)
        words += ["--" + name.replace("_", "-"), text]
    return words


@pytest.mark.parametrize("name", SERVED)
def test_effective_configuration_of_ray_serve(vllm, name):
    case = CASES[name]
    before = vllm.parse(_serve_argv(case["workload"]))
    after = vllm.parse(_serve_argv(wired(case, case["workload"]).manifest))
    assert before.ok, before.log
    assert after.ok, after.log
    check_vllm(case, before, after)


def test_every_case_is_parsed_or_refused(record_testsuite_property):
    refused = 0
    for name in REFUSED:
        with pytest.raises(Refused):
            wired(CASES[name], CASES[name]["workload"])
        refused += 1
    parsed = {name for name, _ in TEMPLATES} | set(SERVED)
    assert parsed == set(WIRED)
    assert len(parsed) + refused == len(CASES)
    record_testsuite_property("corpus templates parsed", len(TEMPLATES) + len(SERVED))
    record_testsuite_property("corpus cases refused", refused)
