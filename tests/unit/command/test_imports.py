"""No import of the room hides in a function, where it would hide a circle too."""

import ast
from pathlib import Path

import function.command

ROOT = Path(function.command.__file__).parent


def _imported(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    return [str(node.module)] if isinstance(node, ast.ImportFrom) else []


def test_only_the_grammar_is_imported_late():
    """A process that meets no script does not load it."""
    late = {
        (path.name, found)
        for path in ROOT.rglob("*.py")
        for function in ast.walk(ast.parse(path.read_text()))
        if isinstance(function, ast.FunctionDef)
        for node in ast.walk(function)
        for found in _imported(node)
    }
    assert late == {("grammar.py", "tree_sitter"), ("grammar.py", "tree_sitter_bash")}
