"""Fixtures: the checkout, checked; its functions, served; the verdicts, written with --update."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from kv_offload.render import conditions
from tests.modelplane import checkout, pins
from tests.modelplane.rows import Bench


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update", action="store_true", help="write the verdicts anew")


@pytest.fixture(scope="session")
def bench() -> Iterator[Bench]:
    folder = os.environ.get("MODELPLANE", "")
    if not folder:
        pytest.skip(f"no checkout of Modelplane: {pins.how()}")
    path = Path(folder).resolve()
    found = checkout.Checkout(path, pins.find(path))
    from function.fn import FunctionRunner

    with checkout.functions(path) as theirs:
        yield Bench(found, theirs, FunctionRunner(clock=lambda: conditions.NOW))
