"""A backend whose keys hold no identity: every one of ours does, and the contract knows both."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from function.backends.lmcache import LMCache
from function.contract.engine import VLLM, Engine


def _only_vllms(_: LMCache, tier: Any, engine: Engine) -> bool:
    return engine.name == VLLM


@contextmanager
def by_string() -> Iterator[None]:
    """LMCache as if the model string alone told SGLang's blocks apart (documents.BY_STRING)."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(LMCache, "keys_hold_identity", _only_vllms)
        yield


@pytest.fixture
def keys_without_identity() -> Iterator[None]:
    with by_string():
        yield
