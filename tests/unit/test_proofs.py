"""docs/proofs.md matches proven.json, and proven.json matches the pairs of tests/serve."""

import ast
import json
import re
from pathlib import Path

from tests.serve.pairs import ELSEWHERE, PAIRS
from tests.serve.proofs import (
    OUTAGE,
    OUTAGES,
    PAGE,
    PROVEN,
    ROOT,
    Proofs,
    add,
    outages,
    page,
    pinned,
)

SEEN = json.loads(PROVEN.read_text())


def test_page_matches_proven_json() -> None:
    assert PAGE.read_text() == page(SEEN)
    assert OUTAGES.read_text() == outages(SEEN)


def test_every_outage_has_its_row() -> None:
    """Each case in which a part fails, of each pair, with the figures that were kept."""
    text = OUTAGES.read_text()
    for name, seen in SEEN.items():
        for case, facts in seen["cases"].items():
            if "requests" in facts and (said := OUTAGE.fullmatch(case)):
                part = said[3] or said[1]
                assert re.search(rf"^\| {part} \|.*\b{name}\b", text, re.MULTILINE), case
            if "test_55" in facts["test"] and case.endswith("the slowest request"):
                assert f"| {facts['seconds']:.1f} s |" in text


def test_proven_versions_are_the_pinned_ones() -> None:
    assert {name: seen["versions"] for name, seen in SEEN.items()} == {
        name: pinned(name) for name in PAIRS if name in SEEN
    }


def test_proven_pairs_show_hits_and_misses() -> None:
    """A hit for the same identity and none for another one: without both a pair is not proven."""
    for name, seen in SEEN.items():
        tokens = [facts["tokens"] for facts in seen["cases"].values() if "tokens" in facts]
        assert min(tokens) == 0 < max(tokens), name


def test_every_proven_case_names_an_existing_test() -> None:
    for seen in SEEN.values():
        for case, facts in seen["cases"].items():
            file, _, function = facts["test"].partition("::")
            tree = ast.parse((ROOT / file).read_text())
            names = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
            assert function in names, case


def test_unproven_pairs_name_their_substitute() -> None:
    assert ELSEWHERE.keys() & PAIRS.keys() == set()
    for row in ELSEWHERE.values():
        assert (ROOT / row.shown).is_file() and row.why


def test_figures_of_a_gpu_are_kept_with_their_machine(tmp_path: Path) -> None:
    proofs, here, there = Proofs(), tmp_path / "proven.json", tmp_path / "seen.json"
    test = "tests/serve/test_75_first_token.py::test_first_token_from_each_place"
    proofs.add("vllm-mooncake", "the first token", test, {}, 0.12345)
    proofs.add("vllm-native", "the first token", test, {}, 1.0)
    proofs.write_gpu(there, "a GPU", failed=["vllm-native"])
    here.write_text(PROVEN.read_text())
    add(here, there)
    kept = json.loads(here.read_text())
    assert kept["vllm-mooncake"].pop("gpu") == {
        "machine": "a GPU",
        "cases": {"the first token": {"test": test, "seconds": 0.123}},
    }
    assert kept == {name: {**seen} for name, seen in SEEN.items()}
    # A later run on a CPU leaves them.
    add(here, there)
    proofs.write(here, failed=["vllm-native"])
    kept = json.loads(here.read_text())
    assert "gpu" in kept["vllm-mooncake"]
    assert "## vllm-mooncake on a GPU\n\na GPU.\n\n| Case" in page(kept)
    assert "| the first token | 0.123 seconds |" in page(kept)
    assert "Nothing has run on a GPU" not in page(kept)


def test_row_without_facts_keeps_its_seconds_and_the_load(tmp_path: Path) -> None:
    proofs, path = Proofs(), tmp_path / "proven.json"
    test = "tests/serve/test_75_first_token.py::test_first_token_from_each_place"
    proofs.add("vllm-native", "the evictor hangs", test, {"texts": "right"}, 3.0)
    proofs.add("vllm-native", "the evictor hangs: a pause", test, {}, 0.26)
    proofs.write(path, failed=[])
    kept = json.loads(path.read_text())
    cases = kept["vllm-native"]["cases"]
    assert cases["the evictor hangs"] == {"test": test, "texts": "right"}
    load = cases["the evictor hangs: a pause"]["load"]
    cases_of_it, _, times = page(kept).partition("## Times")
    assert f"`{test}`\n\n| Pair | Case | a pause | load |" in times
    assert f"| vllm-native | the evictor hangs | 0.26 | {load} |" in times
    assert "a pause" not in cases_of_it
