"""Fixtures of the conformance suite: one service per checker for the whole run."""

import pytest

from tests.conformance import clients


@pytest.fixture(scope="session")
def vllm():
    with clients.VllmParser() as client:
        yield client


@pytest.fixture(scope="session")
def sglang():
    with clients.SglangArgs() as client:
        yield client


@pytest.fixture(scope="session")
def lmcache():
    with clients.LmcacheConfig() as client:
        yield client
