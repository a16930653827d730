"""The words of an engine call, read as Python's argparse reads them.

`scan()` is what vLLM and SGLang have in common: which words are one flag with its value. What a
flag means, and which of several uses counts, is theirs (`vllm.py`, `sglang.py`).
"""

import re
import shlex
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from operator import itemgetter

from function.command.model import Word

_NEGATIVE = re.compile(r"-\d+$|-\d*\.\d+$")


@dataclass(frozen=True)
class Option:
    """A flag of an engine: `name` as `--canonical-name`, `aliases` every other exact spelling.

    `arity`: "0" a switch, "1" one value, "?" at most one, "+" any number. `negatives`: the
    spellings that turn a switch off; a use of one is named `--no-` and the name.
    """

    name: str
    arity: str = "1"
    aliases: tuple[str, ...] = ()
    negatives: tuple[str, ...] = ()

    def negated(self) -> str:
        return f"--no-{self.name[2:]}"


# vLLM pairs `--enable-x` with `--disable-x`, besides argparse's own `--no-` form of either.
_INVERSE = {"--enable-": "--disable-", "--disable-": "--enable-"}


@dataclass(frozen=True)
class FlagGroup:
    """Flags of one arity, as an engine's facts.yaml lists them.

    `names`: without leading dashes. `aliases`: {other spelling: flag}. `negatives`: each has a
    `--no-` form. `inverses`: `--enable-x` has `--disable-x` too, and the other way round.
    """

    arity: str
    names: tuple[str, ...]
    aliases: Mapping[str, str] = field(default_factory=dict)
    negatives: bool = False
    inverses: bool = False
    source: str = ""

    def options(self) -> Iterator[Option]:
        """Yield each flag."""
        for name in (f"--{bare}" for bare in self.names):
            aliases = tuple(sorted(a for a, flag in self.aliases.items() if flag == name))
            yield Option(name, self.arity, aliases, tuple(self._negatives(name, *aliases)))

    def _negatives(self, *spellings: str) -> Iterator[str]:
        for spelling in spellings:
            if not self.negatives or not spelling.startswith("--"):
                continue
            yield f"--no-{spelling[2:]}"
            for given, other in _INVERSE.items() if self.inverses else ():
                if spelling.startswith(given):
                    yield other + spelling[len(given) :]


@dataclass(frozen=True)
class Use:
    """One use of a flag.

    `name`: canonical. `spelling`: what stands there, normalised, without dotted path and value.
    `raw`: the value, None for a switch and where it is not static. `static`: whether the value
    (or that there is none) is known. `words`: the indexes of the call's words it takes up. `path`:
    what follows the first dot of a dotted key, a trailing "+" included. A use in the file of
    `--config` comes before the call's own words and takes up none of them.
    """

    name: str
    spelling: str
    raw: str | None
    static: bool
    words: tuple[int, ...]
    path: str = ""


@dataclass(frozen=True)
class Scan:
    """`loose`: indexes of expansions that stand for any number of words, flags among them."""

    uses: tuple[Use, ...]
    positionals: tuple[str | None, ...] = ()
    loose: tuple[int, ...] = ()

    @cached_property
    def _by_name(self) -> dict[str, list[tuple[int, Use]]]:
        found: dict[str, list[tuple[int, Use]]] = {}
        for at, use in enumerate(self.uses):
            found.setdefault(use.name, []).append((at, use))
        return found

    def of(self, *names: str) -> list[Use]:
        """Return the uses of any of `names`, in order."""
        found = (pair for name in set(names) for pair in self._by_name.get(name, ()))
        return list(map(itemgetter(1), sorted(found, key=itemgetter(0))))

    def last(self, *names: str) -> Use | None:
        found = self.of(*names)
        return found[-1] if found else None


class Options:
    """The flags of one engine by spelling; unambiguous prefixes count, as in argparse."""

    def __init__(self, groups: Iterable[FlagGroup]) -> None:
        """Keep `groups`; they are read at the first question."""
        self._groups = groups

    @cached_property
    def every(self) -> tuple[Option, ...]:
        """Every option, in the order of its group."""
        return tuple(option for group in self._groups for option in group.options())

    @cached_property
    def _exact(self) -> dict[str, Option]:
        return {
            spelling: option
            for option in self.every
            for spelling in (option.name, *option.aliases, *option.negatives)
        }

    @cached_property
    def _sorted(self) -> list[str]:
        return sorted(self._exact)

    def exact(self, spelling: str) -> Option | None:
        """Return the option with exactly this spelling."""
        return self._exact.get(spelling)

    def find(self, spelling: str) -> Option | None:
        """Return the option that `spelling` is or abbreviates; None for none or several."""
        full = self.full(spelling)
        return self._exact[full] if full else None

    def full(self, spelling: str) -> str | None:
        """Return the exact spelling that `spelling` is or abbreviates; None for none or several."""
        if spelling in self._exact:
            return spelling
        found = self.candidates(spelling)
        return found[0] if len(found) == 1 else None

    def name(self, spelling: str) -> str:
        """Return the canonical name of `spelling`, `--no-...` where it turns a switch off."""
        full = self.full(spelling)
        if full is None:
            return spelling
        option = self._exact[full]
        return option.negated() if full in option.negatives else option.name

    def candidates(self, spelling: str) -> list[str]:
        """Return the spellings that `spelling` abbreviates; argparse stops at more than one."""
        if len(spelling) < 3 or not spelling.startswith("--"):
            return []
        first = at = bisect_left(self._sorted, spelling)
        while at < len(self._sorted) and self._sorted[at].startswith(spelling):
            at += 1
        return self._sorted[first:at]


def scan(
    words: Sequence[Word],
    options: Options,
    normalise: Callable[[str], str] = str,
    dotted: bool = False,
    model_first: bool = False,
) -> Scan:
    """Read `words`. `normalise` maps a spelling to the table's.

    `dotted`: `--flag.a.b V` is understood (vLLM). `model_first`: the first word is a positional
    model even where it is an expansion (`vllm serve "$MODEL"`).
    """
    uses: list[Use] = []
    positionals: list[str | None] = []
    loose: list[int] = []
    at = 0
    while at < len(words):
        word, index = words[at], at
        at += 1
        text = word.prefix if word.value is None else word.value
        if text == "--" and word.value is not None:
            positionals += [w.value for w in words[at:]]
            break
        if not _is_flag(text):
            if word.value is None and (not text or word.many) and not (model_first and at == 1):
                loose.append(index)
            else:
                positionals.append(word.value)
            continue
        key, equals, value = text.partition("=")
        key = normalise(key)
        if word.value is None and not equals:  # `--enable-$X`
            loose.append(index)
            continue
        path = ""
        if dotted and "." in key:
            key, _, path = key.partition(".")
        raw = None if word.value is None else value
        if equals:
            uses.append(Use(options.name(key), key, raw, raw is not None, (index,), path))
            continue
        option = options.find(key)
        if option is None and not path and _short_with_value(key, options):
            short = key[:2]
            uses.append(Use(options.name(short), short, key[2:], True, (index,)))
            continue
        arity = "1" if path else option.arity if option else "?"
        taken = _values(words, at, arity, bool(path))
        values = [w.value for w in words[at : at + taken]]
        static = None not in values
        raw = (values[0] if taken == 1 else shlex.join(map(str, values))) if taken else None
        indexes = tuple(range(index, index + 1 + taken))
        uses.append(Use(options.name(key), key, raw if static else None, static, indexes, path))
        at += taken
    return Scan(tuple(uses), tuple(positionals), tuple(loose))


def opposite(name: str) -> str:
    """Return `--no-x` for `--x` and the other way round."""
    return f"--{name[5:]}" if name.startswith("--no-") else f"--no-{name[2:]}"


def _is_flag(text: str) -> bool:
    return (
        len(text) > 1
        and text[0] == "-"
        and not _NEGATIVE.match(text)
        and (" " not in text or "=" in text.split(" ", 1)[0])
    )


def _values(words: Sequence[Word], at: int, arity: str, dotted: bool) -> int:
    """How many of the words from `at` on are this flag's values."""
    if arity == "0" or at >= len(words):
        return 0
    if dotted:  # vLLM takes whatever comes next
        return 1
    for index in range(at, len(words)):
        word, count = words[index], index - at
        if word.value is None:
            # After a flag that needs a value an expansion is the value; else it may be anything.
            return 1 if count == 0 and (arity in "1+" or not word.many) else count
        if _is_flag(word.value) or word.value == "--":
            return count
        if arity in "1?":
            return 1
    return len(words) - at


def _short_with_value(key: str, options: Options) -> bool:
    return len(key) > 2 and key[0] == "-" and key[1] != "-" and options.find(key[:2]) is not None
