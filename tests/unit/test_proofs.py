"""docs/proofs.md is what was seen, and that is of the harness as it is."""

import ast
import json

from tests.serve.pairs import ELSEWHERE, PAIRS
from tests.serve.proofs import PAGE, PROVEN, ROOT, page, pinned

SEEN = json.loads(PROVEN.read_text())


def test_the_page_is_what_was_seen() -> None:
    assert PAGE.read_text() == page(SEEN)


def test_what_was_seen_is_of_the_pairs_with_what_is_pinned() -> None:
    assert {name: seen["versions"] for name, seen in SEEN.items()} == {
        name: pinned(name) for name in PAIRS if name in SEEN
    }


def test_tokens_are_said_of_pairs_that_showed_the_least() -> None:
    """What one computed is found or fetched; what is of others is not. A pair without that is
    listed as none."""
    for name, seen in SEEN.items():
        tokens = [facts["tokens"] for facts in seen["cases"].values() if "tokens" in facts]
        assert min(tokens) == 0 < max(tokens), name


def test_every_case_is_of_a_test() -> None:
    for seen in SEEN.values():
        for case, facts in seen["cases"].items():
            file, _, function = facts["test"].partition("::")
            tree = ast.parse((ROOT / file).read_text())
            names = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
            assert function in names, case


def test_what_serves_no_tokens_says_what_is_shown_instead() -> None:
    assert ELSEWHERE.keys() & PAIRS.keys() == set()
    for row in ELSEWHERE.values():
        assert (ROOT / row.shown).is_file() and row.why
