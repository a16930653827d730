"""Fixtures of the serving suite: one node for the run, one fleet for each pair."""

import os
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.conformance.node import Node
from tests.serve.fleet import ADAPTERS, MODELS, SEEDS, SHORT, Fleet, References
from tests.serve.pairs import ELSEWHERE, GPU_PAIRS, KEEPING, PAIRS, Pair
from tests.serve.proofs import PROVEN, Proofs, machine
from tests.serve.site import Site

LOGS = Path(__file__).parents[2] / ".serve-logs"
_PROOFS = pytest.StashKey[Proofs]()
_FAILED = pytest.StashKey[set[str]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--pair", action="append", default=[], help="only this pair; repeatable")
    parser.addoption("--long", action="store_true", help="the tests of some minutes each as well")
    parser.addoption("--gpu", type=Path, help="engines on a GPU, by this environment (gpu_kit.py)")
    parser.addoption("--replay", type=Path, help="conversations to replay: rows with hash_ids")
    parser.addoption("--proofs", action="store_true", help="add what was seen to proven.json")
    parser.addoption("--proofs-in", type=Path, help="write what was seen on a GPU to this file")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", "pairs(*names): the pairs that a test is about; else all that keep blocks"
    )
    config.addinivalue_line("markers", "ways(rows): a row each, of the pair that it names")
    config.addinivalue_line("markers", "long(but): run with --long only, but for this one")
    config.stash[_PROOFS], config.stash[_FAILED] = Proofs(), set()
    unknown = sorted(set(config.getoption("pair")) - set(_pairs(config)))
    for name in set(unknown) & set(ELSEWHERE):
        raise pytest.UsageError(f"--pair {name} serves no tokens here: {ELSEWHERE[name].why}")
    if unknown:
        raise pytest.UsageError(
            f"--pair {', '.join(unknown)}: there are {', '.join(_pairs(config))}"
        )


def _pairs(config: pytest.Config) -> Mapping[str, Pair]:
    return GPU_PAIRS if config.getoption("gpu") else PAIRS


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "pair" not in metafunc.fixturenames:
        return
    marker = metafunc.definition.get_closest_marker("pairs")
    pairs = _pairs(metafunc.config)
    long = metafunc.config.getoption("long")
    usual = [name for name, pair in pairs.items() if long or not pair.long]
    wanted = metafunc.config.getoption("pair") or usual
    about = marker.args if marker is not None else KEEPING
    chosen = [name for name in about if name in wanted]
    if (given := metafunc.definition.get_closest_marker("ways")) is not None:
        ways = [way for way in given.args[0] if way.pair in wanted]
        names = [f"{way.pair}-{way.name}" for way in ways]
        rows = [(way.pair, way) for way in ways]
        metafunc.parametrize("pair,way", rows, indirect=["pair"], scope="session", ids=names)
    elif "part" in metafunc.fixturenames:
        parts = [(name, part) for name in chosen for part in PAIRS[name].parts]
        metafunc.parametrize("pair,part", parts, indirect=["pair"], scope="session")
    else:
        metafunc.parametrize("pair", chosen, indirect=True, scope="session")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """All tests of a pair follow each other, file by file: its tier and engines run once."""
    order = list(PAIRS)

    def place(item: pytest.Item) -> tuple[int, str]:
        name = _pair_of(item)
        return (order.index(name) if name else -1, item.path.name)

    def wanted(item: pytest.Item) -> bool:
        # pytest gives a test for which no pair is left one item without a pair.
        return _pair_of(item) is not None and (_short(item) or config.getoption("long"))

    config.hook.pytest_deselected(items=[item for item in items if not wanted(item)])
    items[:] = sorted(filter(wanted, items), key=place)


def _short(item: pytest.Item) -> bool:
    marker = item.get_closest_marker("long")
    return marker is None or item.callspec.id == marker.kwargs.get("but")  # type: ignore[attr-defined]


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
def site(node: Node, pytestconfig: pytest.Config) -> Iterator[Site]:
    made = Site(node, LOGS, pytestconfig.getoption("gpu"))
    for claim, seed in MODELS.items():
        made.model(claim, seed)
    made.hub("hub", {"v1": MODELS["llama"], "v2": MODELS["qwen"]})
    made.shims()
    for claim, seed in ADAPTERS.items():
        made.adapter(claim, seed, "sql")
    yield made
    made.close()


@pytest.fixture(scope="session")
def references(site: Site, pytestconfig: pytest.Config) -> References:
    return References(site, SEEDS if pytestconfig.getoption("long") else SHORT)


@pytest.fixture(scope="session")
def pair(request: pytest.FixtureRequest, site: Site, references: References) -> Iterator[Fleet]:
    """Everything of one pair; logs of a pair whose tests all passed are removed."""
    name = request.param
    site.logs = LOGS / name
    shutil.rmtree(site.logs, ignore_errors=True)
    fleet = Fleet(_pairs(request.config)[name], site, references)
    yield fleet
    fleet.close()
    if name not in request.config.stash[_FAILED] and not os.environ.get("KV_OFFLOAD_KEEP_LOGS"):
        shutil.rmtree(site.logs, ignore_errors=True)


@pytest.fixture
def fleet(pair: Fleet) -> Fleet:
    return pair


@pytest.fixture
def proof(request: pytest.FixtureRequest, pair: Fleet):
    """`proof(case, tokens=..., seconds=...)`: what was seen. Seconds are kept of rows without
    other facts."""
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
    if config.stash[_FAILED]:
        terminalreporter.line(f"logs of {', '.join(sorted(config.stash[_FAILED]))}: {LOGS}")
    if config.getoption("proofs") and not config.getoption("gpu"):
        proofs.write(PROVEN, config.stash[_FAILED])
    if config.getoption("gpu") and (path := config.getoption("proofs_in")):
        proofs.write_gpu(path, machine(), config.stash[_FAILED])
