"""An engine's flags from the compact lists of `vllm/options.py` and `sglang/options.py`."""

from collections import defaultdict
from collections.abc import Mapping

from function.engines.scan import Option

# vLLM pairs `--enable-x` with `--disable-x`, besides argparse's own `--no-` form of either.
_INVERSE = {"--enable-": "--disable-", "--disable-": "--enable-"}


def table(
    single: str,
    optional: str,
    many: str,
    switches: str,
    toggles: str,
    aliases: Mapping[str, str],
    paired: bool = False,
) -> tuple[Option, ...]:
    """Return the options. Each list is names without leading dashes, between white space.

    `toggles` have a `--no-` form; with `paired` also `--disable-x` for `--enable-x` and back.
    """
    other: dict[str, list[str]] = defaultdict(list)
    for spelling, name in aliases.items():
        other[name].append(spelling)
    arities = ((single, "1"), (optional, "?"), (many, "+"), (switches, "0"), (toggles, "0"))
    return tuple(
        Option(
            name,
            arity,
            tuple(sorted(other[name])),
            _negatives(name, other[name], paired) if names is toggles else (),
        )
        for names, arity in arities
        for name in (f"--{bare}" for bare in names.split())
    )


def _negatives(name: str, aliases: list[str], paired: bool) -> tuple[str, ...]:
    spellings = []
    for spelling in (name, *sorted(aliases)):
        if not spelling.startswith("--"):
            continue
        spellings.append(f"--no-{spelling[2:]}")
        if paired:
            spellings += [
                b + spelling[len(a) :] for a, b in _INVERSE.items() if spelling.startswith(a)
            ]
    return tuple(spellings)
