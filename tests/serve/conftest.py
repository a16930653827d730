"""Fixtures of the serving suite: one node for the run, one fleet for each pair."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conformance.node import Node
from tests.serve.fleet import ADAPTERS, MODELS, Fleet, References
from tests.serve.pairs import ELSEWHERE, PAIRS
from tests.serve.proofs import Proofs
from tests.serve.site import Site

LOGS = Path(__file__).parents[2] / ".serve-logs"
_PROOFS = pytest.StashKey[Proofs]()
_FAILED = pytest.StashKey[set[str]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--pair", action="append", default=[], help="only this pair; repeatable")
    parser.addoption("--long", action="store_true", help="the tests of some minutes each as well")
    parser.addoption("--proofs", help="write what was proven to this file (JSON)")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "pairs(*names): the pairs that a test is about")
    config.addinivalue_line("markers", "long: run with --long only")
    config.stash[_PROOFS], config.stash[_FAILED] = Proofs(), set()
    unknown = sorted(set(config.getoption("pair")) - set(PAIRS))
    for name in set(unknown) & set(ELSEWHERE):
        raise pytest.UsageError(f"--pair {name} needs a GPU: {ELSEWHERE[name]}")
    if unknown:
        raise pytest.UsageError(f"--pair {', '.join(unknown)}: there are {', '.join(PAIRS)}")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "pair" not in metafunc.fixturenames:
        return
    marker = metafunc.definition.get_closest_marker("pairs")
    wanted = metafunc.config.getoption("pair") or list(PAIRS)
    about = marker.args if marker is not None else tuple(PAIRS)
    chosen = [name for name in about if name in wanted]
    if "part" in metafunc.fixturenames:
        parts = [(name, part) for name in chosen for part in PAIRS[name].parts]
        metafunc.parametrize("pair,part", parts, indirect=["pair"], scope="session")
    else:
        metafunc.parametrize("pair", chosen, indirect=True, scope="session")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """All tests of a pair follow each other: its tier and engines run once."""
    order = list(PAIRS)

    def place(item: pytest.Item) -> int:
        name = _pair_of(item)
        return order.index(name) if name else -1

    def wanted(item: pytest.Item) -> bool:
        # pytest gives a test for which no pair is left one item without a pair.
        short = item.get_closest_marker("long") is None
        return _pair_of(item) is not None and (short or config.getoption("long"))

    config.hook.pytest_deselected(items=[item for item in items if not wanted(item)])
    items[:] = sorted(filter(wanted, items), key=place)


def _pair_of(item: pytest.Item) -> str | None:
    """The pair whose tier and engines a test uses, "" for none; None where none was chosen."""
    callspec = getattr(item, "callspec", None)
    name = callspec.params.get("pair", "") if callspec is not None else ""
    return name if isinstance(name, str) else None


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]):
    report = yield
    if report.failed and (name := _pair_of(item)):
        item.config.stash[_FAILED].add(name)
    return report


@pytest.fixture(scope="session")
def node() -> Iterator[Node]:
    made = Node()
    yield made
    made.close()


@pytest.fixture(scope="session")
def site(node: Node) -> Iterator[Site]:
    made = Site(node, LOGS)
    for claim, seed in MODELS.items():
        made.model(claim, seed)
    made.hub("hub", {"v1": MODELS["llama"], "v2": MODELS["qwen"]})
    for claim, seed in ADAPTERS.items():
        made.adapter(claim, seed, "sql")
    yield made
    made.close()


@pytest.fixture(scope="session")
def references(site: Site) -> References:
    return References(site)


@pytest.fixture(scope="session")
def pair(request: pytest.FixtureRequest, site: Site, references: References) -> Iterator[Fleet]:
    """Everything of one pair; logs of a pair whose tests all passed are removed."""
    name = request.param
    site.logs = LOGS / name
    shutil.rmtree(site.logs, ignore_errors=True)
    fleet = Fleet(PAIRS[name], site, references)
    yield fleet
    fleet.close()
    if name not in request.config.stash[_FAILED] and not os.environ.get("KV_OFFLOAD_KEEP_LOGS"):
        shutil.rmtree(site.logs, ignore_errors=True)


@pytest.fixture
def fleet(pair: Fleet) -> Fleet:
    return pair


@pytest.fixture
def proof(request: pytest.FixtureRequest, pair: Fleet):
    """`proof(case, tokens=..., seconds=...)`: what was seen; seconds are shown and not kept."""
    proofs = request.config.stash[_PROOFS]

    def note(case: str, *, seconds: float | None = None, **facts: object) -> None:
        proofs.add(pair.pair.name, case, request.node.nodeid, facts, seconds)

    return note


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    config = terminalreporter.config
    proofs = config.stash[_PROOFS]
    if proofs.rows:
        terminalreporter.section("what was seen")
        for line in proofs.lines():
            terminalreporter.line(line)
    for name, why in ELSEWHERE.items():
        terminalreporter.line(f"{name:<16} needs a GPU, and did not run: {why}")
    if config.stash[_FAILED]:
        terminalreporter.line(f"logs of {', '.join(sorted(config.stash[_FAILED]))}: {LOGS}")
    if (path := config.getoption("proofs")) and not config.stash[_FAILED]:
        proofs.write(Path(path))
