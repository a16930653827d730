"""Fixtures of the conformance suite: one service per checker for the whole run.

Some tests take a minute and more on a slow machine. There CI runs one of three parts of them, which
the commit decides (CONFORMANCE_PART=2/3), so that the next commits run the others.
"""

import os

import pytest

from tests.conformance import clients
from tests.conformance.envs import environment
from tests.conformance.node import Node


def pytest_configure(config):
    config.addinivalue_line("markers", "minutes: takes a minute and more on a slow machine")


def pytest_collection_modifyitems(config, items):
    part, parts = map(int, os.environ.get("CONFORMANCE_PART", "1/1").split("/"))
    slow = [item for item in items if item.get_closest_marker("minutes")]
    others = [item for at, item in enumerate(slow) if at % parts != part - 1]
    items[:] = [item for item in items if item not in others]
    config.hook.pytest_deselected(items=others)


@pytest.fixture(scope="session")
def vllm():
    with clients.VllmParser() as client:
        yield client


@pytest.fixture(scope="session")
def sglang():
    with clients.SglangArgs() as client:
        yield client


@pytest.fixture(scope="session")
def hicache():
    with clients.HicacheStorage() as client:
        yield client


@pytest.fixture(scope="session")
def lmcache():
    with clients.LmcacheConfig() as client:
        yield client


@pytest.fixture(scope="session")
def engines():
    """The environment that stands in for the images of LMCache and Mooncake."""
    return environment("vllm")


@pytest.fixture
def node():
    made = Node()
    yield made
    made.close()
