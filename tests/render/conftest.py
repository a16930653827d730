"""Fixtures of the render cases: Crossplane's engine and validator, started once."""

from collections.abc import Iterator

import pytest

from tests.render import run, validate
from tests.render.case import all_cases
from tests.tools.find import ToolsMissing


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--require-engine",
        action="store_true",
        help="fail, instead of skipping, what needs Crossplane's own binaries",
    )


def _missing(request: pytest.FixtureRequest, missing: ToolsMissing) -> None:
    """Skipped by name (pytest -ra prints and counts them), or failed where they are required."""
    if request.config.getoption("--require-engine"):
        pytest.fail(str(missing))
    pytest.skip(str(missing))


@pytest.fixture(scope="session")
def crossplane(request: pytest.FixtureRequest) -> Iterator[run.Engine]:
    names = {name for case in all_cases() for name in case.functions}
    try:
        with run.crossplane(names) as engine:
            yield engine
    except ToolsMissing as missing:
        _missing(request, missing)


@pytest.fixture(scope="session")
def validator(request: pytest.FixtureRequest) -> Iterator[validate.Validator]:
    try:
        with validate.validator() as ready:
            yield ready
    except ToolsMissing as missing:
        _missing(request, missing)
