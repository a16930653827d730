"""No regular expression of the package blocks the interpreter: attacks show each is linear.

Python's engine backtracks, and it holds the interpreter's lock meanwhile: health checks, too, wait
for a pattern that is quadratic in an annotation. Every pattern is collected, attacked with texts
that are derived from its own parse tree, and held to a bound at 64 KB.
"""

import ast
import contextlib
import gc
import importlib
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any

import packaging.version
import pytest
from pydantic import Field, TypeAdapter, ValidationError

from function.api.backends import SPECS
from function.api.cluster import InferenceClusterSpec
from function.api.deployment import ModelDeploymentSpec
from function.api.engines import ENGINES
from function.api.input import Input
from function.api.tier import TierSpec
from function.contract.models import families
from function.engines.registry import kind
from function.facts import Table
from function.pods import identify
from function.redact import is_credential, redacted
from tests.unit.house.test_imports import imported

# The engine's own reader of patterns: it has no public name.
op, parser, compiler = (
    importlib.import_module(f"re.{name}") for name in ("_constants", "_parser", "_compiler")
)

# What a text of 64 KB may cost, in seconds of CPU. A linear pattern takes 1 to 10 ms; a quadratic
# one takes 10 s and more.
SIZE, BOUND = 64 * 1024, 0.25
# Sizes of the screening: a quadratic pattern is 64 times as slow from one to the next. What is slow
# at the largest is measured at four times that: a slow machine is not a quadratic pattern.
_SCREENED = (64, 512, 4096)
_SCREEN_BOUND = 0.004

_METHODS = ("search", "match", "fullmatch", "sub", "subn", "split", "findall", "finditer")
_TAILS = ("!", "\n", "a")
# Patterns that see at most so many characters, cut in the line that calls them.
LIMITS = {"function.contract.models.families._compiled()": 256}
# One character of each kind that classes tell apart.
_ALPHABET = "a0_-./ :='\",\\$AZ%@+~()[]{}!\n#eé"


@dataclass(frozen=True)
class Collected:
    """A pattern of the package, and the methods it is called by."""

    where: str
    pattern: re.Pattern[Any]
    methods: tuple[str, ...]

    def __str__(self) -> str:
        return self.where


def _modules() -> Iterator[ModuleType]:
    """What the server imports, at its start or during a call; programs of other pods are text."""
    todo = ["function.main", *(f"function.backends.{name.lower()}" for name in SPECS)]
    todo += [f"function.engines.{name.lower()}" for name in ENGINES]
    seen: set[str] = set()
    while todo:
        name = todo.pop()
        if name not in seen:
            seen.add(name)
            todo += imported(name)
    for name in sorted(seen):
        yield importlib.import_module(name)


def _patterns_of(value: Any, depth: int = 3) -> Iterator[re.Pattern[Any]]:
    """The compiled patterns in a module's value: itself, or in tables and their rows."""
    if isinstance(value, re.Pattern):
        yield value
    elif depth and isinstance(value, dict):
        for item in (*value.keys(), *value.values()):
            yield from _patterns_of(item, depth - 1)
    elif depth and isinstance(value, tuple | list | set | frozenset | Table):
        for item in value:
            yield from _patterns_of(item, depth - 1)
    elif depth and hasattr(value, "__dataclass_fields__") and not isinstance(value, type):
        for name in value.__dataclass_fields__:
            yield from _patterns_of(getattr(value, name, None), depth - 1)


def _calls(tree: ast.AST) -> Iterator[tuple[ast.Call, str, str]]:
    """(call, what it is called on by its last name, method) of each call of a pattern's method."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            owner = node.func.value
            name = owner.id if isinstance(owner, ast.Name) else getattr(owner, "attr", "")
            if node.func.attr in _METHODS or (name == "re" and node.func.attr == "compile"):
                yield node, name, node.func.attr


def collect() -> tuple[list[Collected], list[str]]:
    """Every pattern of the package, and the modules with one that nothing here can know."""
    modules = list(_modules())
    trees = {m: ast.parse(Path(m.__file__).read_text()) for m in modules if m.__file__}
    methods: dict[str, set[str]] = {}
    for module, tree in trees.items():
        for _, name, method in _calls(tree):
            methods.setdefault(f"{module.__name__}.{name}", set()).add(method)
            methods.setdefault(name, set()).add(method)
    found: dict[tuple[Any, ...], Collected] = {}
    hidden = []
    for module, tree in trees.items():
        own = {name for name, value in vars(module).items() if isinstance(value, re.Pattern)}
        # What is called on rows of tables; `split` is a method of texts too.
        local = {m for _, name, m in _calls(tree) if name not in own and name != "re"} - {"split"}
        for name, value in vars(module).items():
            for pattern in _patterns_of(value):
                direct = methods.get(f"{module.__name__}.{name}") or methods.get(name)
                direct = (direct if isinstance(value, re.Pattern) else None) or local
                used = tuple(sorted((direct & set(_METHODS)) or {"search"}))
                key = (pattern.pattern, pattern.flags, used)
                found.setdefault(key, Collected(f"{module.__name__}.{name}", pattern, used))
        top = {id(node) for statement in tree.body for node in _outside_functions(statement)}
        for call, name, method in _calls(tree):
            if name != "re" or (id(call) in top and method == "compile"):
                continue
            where = f"{module.__name__}:{call.lineno}"
            try:
                text = eval(compile(ast.Expression(call.args[0]), where, "eval"), vars(module))
                found[where,] = Collected(where, re.compile(text), (method,))
            except NameError:
                hidden.append(module.__name__)
    return list(found.values()), hidden


def _outside_functions(node: ast.AST) -> Iterator[ast.AST]:
    """The nodes that an import runs; what a row of a table compiles is found in the row."""
    function = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    if not function or getattr(node, "name", "") == "__post_init__":
        yield node
        for child in ast.iter_child_nodes(node):
            yield from _outside_functions(child)


# Attacks --------------------------------------------------------------------------------------


def _class_members(items: list[Any], flags: int) -> list[str]:
    """Characters of different kinds that a class takes."""
    single = compiler.compile(parser.SubPattern(_state(flags), [(op.IN, items)]), flags)
    return [c for c in _ALPHABET if single.fullmatch(c)][:4] or ["a"]


def _state(flags: int) -> Any:
    state = parser.State()
    state.flags = flags
    state.str = ""
    return state


def sample(items: Any, flags: int, choice: int = 0) -> str:
    """A text that a sequence of nodes takes, where it has no conditions of what stands around."""
    return "".join(_sample(node, flags, choice) for node in items)


def _sample(node: Any, flags: int, choice: int) -> str:
    kind, value = node
    if kind is op.LITERAL:
        return chr(value)
    if kind is op.NOT_LITERAL:
        return next(c for c in _ALPHABET if ord(c) != value)
    if kind is op.ANY:
        return "a"
    if kind is op.IN:
        members = _class_members(value, flags)
        return members[choice % len(members)]
    if kind is op.BRANCH:
        return sample(value[1][choice % len(value[1])], flags, choice)
    if kind is op.SUBPATTERN:
        return sample(value[3], flags, choice)
    if kind is op.ATOMIC_GROUP:
        return sample(value, flags, choice)
    if kind in (op.MAX_REPEAT, op.MIN_REPEAT, op.POSSESSIVE_REPEAT):
        return sample(value[2], flags, choice) * max(value[0], 1 if choice % 2 else 0)
    return ""


def _repeated(items: Any, flags: int, before: str = "") -> Iterator[tuple[str, str]]:
    """(text in front, fragment to repeat) for every part of a pattern."""
    items = list(items)
    for choice in range(4):
        for i in range(len(items)):
            for j in (i + 1, i + 2, i + 3, i + 4, len(items)):
                yield before, sample(items[i:j], flags, choice)
                yield before + sample(items[:i], flags, choice), sample(items[i:j], flags, choice)
    for i, (node, value) in enumerate(items):
        front = before + sample(items[:i], flags, 1)
        if node in (op.MAX_REPEAT, op.MIN_REPEAT, op.POSSESSIVE_REPEAT):
            for choice in range(4):
                yield front, sample(value[2], flags, choice)
            yield from _repeated(value[2], flags, front)
        elif node is op.SUBPATTERN:
            yield from _repeated(value[3], flags, front)
        elif node is op.ATOMIC_GROUP:
            yield from _repeated(value, flags, front)
        elif node is op.BRANCH:
            for branch in value[1]:
                yield from _repeated(branch, flags, front)


def attacks(pattern: re.Pattern[Any]) -> set[tuple[str, str, str]]:
    """(front, fragment, tail): what the pattern takes, over and over, and then what it does not."""
    text, flags = pattern.pattern, pattern.flags & ~re.UNICODE
    tree = parser.parse(text.decode("latin-1") if isinstance(text, bytes) else text, flags)
    parts = {part for part in _repeated(tree, flags) if part[1]}
    parts |= {("", f) for f in ("a-", "a.", "a", " ", "0", "-", '"', "\\", "token ", "a=", "a:")}
    return {(front, fragment, tail) for front, fragment in parts for tail in _TAILS}


def _attack(front: str, fragment: str, tail: str, size: int) -> str:
    return front + fragment * max(1, (size - len(front) - len(tail)) // len(fragment)) + tail


def _seconds(run: Callable[[Any], Any], text: str | bytes) -> float:
    """Seconds of CPU; a collection of this process's whole heap in between is no pattern's."""
    gc.disable()
    try:
        started = time.process_time()
        run(text)
        return time.process_time() - started
    finally:
        gc.enable()


def _runs(collected: Collected) -> list[Callable[[Any], Any]]:
    pattern = collected.pattern
    empty = b"" if isinstance(pattern.pattern, bytes) else ""
    made: dict[str, Callable[[Any], Any]] = {
        "sub": lambda text: pattern.sub(empty, text),
        "subn": lambda text: pattern.sub(empty, text),
        "finditer": lambda text: list(pattern.finditer(text)),
    }
    return [made.get(method) or getattr(pattern, method) for method in collected.methods]


def worst(
    run: Callable[[Any], Any], pattern: re.Pattern[Any], largest: int = SIZE
) -> tuple[float, str]:
    """(seconds, the text's shape) of the slowest attack: at 64 KB, or where it stopped before."""
    encode = isinstance(pattern.pattern, bytes)
    timed: list[tuple[float, tuple[str, str, str]]] = []

    def shortest(attack: tuple[str, str, str], size: int, times: int) -> float:
        text = _attack(*attack, size)
        return min(_seconds(run, text.encode() if encode else text) for _ in range(times))

    def linear(attack: tuple[str, str, str], size: int, seconds: float) -> bool:
        """Return whether four times the text takes less than eight times as long, not 16."""
        return shortest(attack, size * 4, 3) < seconds * 8

    for attack in sorted(attacks(pattern)):
        for size in (size for size in _SCREENED if size <= largest):
            seconds = shortest(attack, size, 1)
            if seconds > _SCREEN_BOUND:
                seconds = shortest(attack, size, 3)
            if seconds > _SCREEN_BOUND and not (
                size == _SCREENED[-1] and linear(attack, size, seconds)
            ):
                return seconds * (largest / size) ** 2, f"{attack} at {size}"
        timed.append((seconds, attack))
    timed.sort(reverse=True)
    slowest = (0.0, "")
    for _, attack in timed[:3]:
        text = _attack(*attack, largest)
        slowest = max(slowest, (_seconds(run, text.encode() if encode else text), str(attack)))
    return slowest


PATTERNS, HIDDEN = collect()
# What is put together of facts and engines when it is first asked for.
BUILT = {
    "function.contract.models.families": [
        row[0] for section in families._NAMES for row in families._compiled(section)
    ],
    "function.pods.identify": [
        re.compile(rf"(?:^|[-_.]){kind(engine).distribution}[-_]?{identify._VERSION}")
        for engine in ENGINES
    ],
}
for _module, _built in BUILT.items():
    for _pattern in _built:
        PATTERNS.append(Collected(f"{_module}._compiled()", _pattern, ("search",)))
PATTERNS.append(
    Collected(
        "packaging.version",
        re.compile(packaging.version.VERSION_PATTERN, re.VERBOSE | re.IGNORECASE),
        ("fullmatch",),
    )
)


def test_every_pattern_is_collected() -> None:
    """A pattern that is put together during a call is compiled at import, or stands in BUILT."""
    assert sorted(HIDDEN) == sorted(BUILT)
    assert len(PATTERNS) > 60


@pytest.mark.parametrize("collected", PATTERNS, ids=str)
def test_pattern_is_linear(collected: Collected) -> None:
    for run in _runs(collected):
        limit = LIMITS.get(collected.where, SIZE)
        seconds, attack = worst(run, collected.pattern, limit)
        assert seconds <= BOUND, f"{collected.where}: {seconds:.2f} s by {attack}"


@cache
def fields() -> tuple[str, ...]:
    """Return the patterns of all fields that users write: pydantic matches them, not Python."""
    found: set[str] = set()

    def collect(schema: Any) -> None:
        if isinstance(schema, dict):
            found.update(v for k, v in schema.items() if k == "pattern" and isinstance(v, str))
            schema = list(schema.values())
        if isinstance(schema, list):
            for item in schema:
                collect(item)

    for model in (TierSpec, InferenceClusterSpec, ModelDeploymentSpec, Input):
        collect(model.model_json_schema())
    return tuple(sorted(found))


@pytest.mark.parametrize("pattern", fields())
def test_pattern_of_a_field_is_linear(pattern: str) -> None:
    field = TypeAdapter(Annotated[str, Field(pattern=pattern)])

    def validate(text: str) -> None:
        with contextlib.suppress(ValidationError):
            field.validate_python(text)

    seconds, attack = worst(validate, re.compile(pattern))
    assert seconds <= BOUND, f"{pattern}: {seconds:.2f} s by {attack}"


def test_fields_have_patterns() -> None:
    assert len(fields()) > 20


TEXTS = (
    ("a-",),
    ("a.",),
    ("token ",),
    ("token",),
    ("token-",),
    ("token:",),
    ("eyJ-",),
    ("eyJaaaaaaaaaaaa.",),
    ("://a:",),
    ("hf_",),
    ("sk-",),
    ("secret_key",),
    ("token is ",),
    ("token", " "),
    ("'",),
    ("\\",),
)


@pytest.mark.parametrize("parts", TEXTS, ids="|".join)
@pytest.mark.parametrize("call", (redacted, is_credential))
def test_redaction_is_linear(call: Callable[[str], object], parts: tuple[str, ...]) -> None:
    *front, fragment = parts
    for tail in _TAILS:
        text = _attack("".join(front), fragment, tail, SIZE)
        assert _seconds(call, text) <= BOUND, (parts, tail)
