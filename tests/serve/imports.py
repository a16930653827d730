"""Which modules a program imports: read from the source, nothing is executed.

A module's imports are followed within the packages of its roots. An import that its author made
optional (in a `try` that catches its failure, or for type checkers) may be absent. Imports within
functions count for the modules that `deep` names: on the way of a request, functions run.
"""

import ast
import os
import sys
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

_CATCHES = {"ImportError", "ModuleNotFoundError", "Exception", "BaseException"}


@dataclass
class Walk:
    """`folder`: where packages lie. `deep`: prefixes of modules whose functions run. After `run`,
    `missing` has each module's first name that no file of the folder has, and who imports it.
    """

    folder: Path
    deep: Collection[str] = ()
    missing: dict[str, set[str]] = field(default_factory=dict)
    seen: set[str] = field(default_factory=set)

    def run(self, roots: Collection[str]) -> None:
        """Follow these modules; LookupError where the folder lacks one."""
        for root in roots:
            if self._file(root) is None:
                raise LookupError(f"{root} is not in {self.folder}")
        waiting = [*roots]
        followed = {root.partition(".")[0] for root in waiting}
        while waiting:
            name = waiting.pop()
            if name in self.seen:
                continue
            self.seen.add(name)
            if name.partition(".")[0] in followed:
                waiting += self._imports(name)

    def _imports(self, name: str) -> Iterator[str]:
        """Yield the modules that a module imports, with the packages around each."""
        file = self._file(name)
        if file is None or file.suffix != ".py":
            return
        package = name if file.name == "__init__.py" else name.rpartition(".")[0]
        deep = name.startswith(tuple(self.deep))
        for word, optional in _words(ast.parse(file.read_bytes()), package, deep):
            first = word.partition(".")[0]
            if first in sys.stdlib_module_names:
                continue
            if self._file(first) is None:
                if not optional:
                    self.missing.setdefault(first, set()).add(name)
                continue
            parts = word.split(".")
            for length in range(1, len(parts) + 1):
                inner = ".".join(parts[:length])
                if self._file(inner) is not None:
                    yield inner

    def _file(self, name: str) -> Path | None:
        """The file of a module; the folder itself of a package without one."""
        around, _, last = name.rpartition(".")
        folder = self.folder.joinpath(*around.split(".")) if around else self.folder
        found = _modules(folder).get(last)
        return folder / found if found is not None else None


@cache
def _modules(folder: Path) -> dict[str, str]:
    """Module -> its file in this folder; a package before a module, Python before machine code."""
    names = sorted(os.listdir(folder), reverse=True) if folder.is_dir() else ()
    compiled = {name.partition(".")[0]: name for name in names if name.endswith(".so")}
    sources = {name[:-3]: name for name in names if name.endswith(".py")}
    packages = {name: name for name in names if "." not in name and (folder / name).is_dir()}
    written = {name: f"{name}/__init__.py" for name in packages}
    kept = {name: file for name, file in written.items() if (folder / file).is_file()}
    return {**packages, **compiled, **sources, **kept}


def _words(tree: ast.AST, package: str, deep: bool) -> Iterator[tuple[str, bool]]:
    """Yield what is imported, by its full name, and whether its absence is handled."""
    waiting: list[tuple[ast.AST, bool]] = [(tree, False)]
    while waiting:
        node, optional = waiting.pop()
        if isinstance(node, ast.Import):
            yield from ((alias.name, optional) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            around = package.split(".")[: len(package.split(".")) - node.level + 1]
            base = ".".join([*(around if node.level else ()), *filter(None, [node.module])])
            yield from ((f"{base}.{alias.name}", optional) for alias in node.names)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) and not deep:
            continue
        elif isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            waiting += [(child, optional) for child in node.orelse]
        elif isinstance(node, ast.Try):
            caught = optional or any(_catches(handler) for handler in node.handlers)
            waiting += [(child, caught) for child in node.body]
            others = (*node.handlers, *node.orelse, *node.finalbody)
            waiting += [(child, optional) for child in others]
        else:
            waiting += [(child, optional) for child in ast.iter_child_nodes(node)]


def _catches(handler: ast.ExceptHandler) -> bool:
    if handler.type is None:
        return True
    return any(isinstance(n, ast.Name) and n.id in _CATCHES for n in ast.walk(handler.type))
