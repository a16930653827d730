"""Fixtures of the conformance suite: one service per checker for the whole run."""

import pytest

from tests.conformance import clients
from tests.conformance.envs import environment
from tests.conformance.node import Node


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
