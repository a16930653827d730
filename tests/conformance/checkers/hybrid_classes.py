"""Prints, as JSON, the architectures of an environment's vLLM whose classes keep recurrent state.

From source alone: {"hybrid": [...], "free": [...]}, for IsHybrid and IsAttentionFree.
"""

import ast
import importlib.util
import json
import re
from pathlib import Path


def bases(root: Path) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for folder in (root / "model_executor" / "models", root / "models"):
        for path in folder.rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.ClassDef):
                    names = (getattr(b, "id", getattr(b, "attr", "")) for b in node.bases)
                    found.setdefault(node.name, set()).update(names)
    return found


def main() -> None:
    spec = importlib.util.find_spec("vllm")
    assert spec and spec.origin
    root = Path(spec.origin).parent
    parents = bases(root)

    def has(name: str, wanted: str, seen: frozenset[str] = frozenset()) -> bool:
        return name == wanted or any(
            has(base, wanted, seen | {name}) for base in parents.get(name, set()) - seen
        )

    registry = (root / "model_executor" / "models" / "registry.py").read_text()
    pairs = re.findall(r'"(\w+)":\s*\(\s*"[\w.]+",\s*"(\w+)",?\s*\)', registry)
    kinds = {"hybrid": "IsHybrid", "free": "IsAttentionFree"}
    print(
        json.dumps(
            {kind: sorted({a for a, c in pairs if has(c, base)}) for kind, base in kinds.items()}
        )
    )


main()
