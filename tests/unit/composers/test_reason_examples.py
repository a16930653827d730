"""docs/reasons.md says what the function says."""

import pytest

from function.reasons import Reason
from kv_offload.docs.reasons import REASONS
from tests.unit.composers.reason_examples import EXAMPLES, example


@pytest.mark.parametrize("reason", Reason)
def test_example_is_what_the_function_says(reason: Reason) -> None:
    assert REASONS[reason].example == example(reason)


def test_every_reason_has_an_example() -> None:
    assert set(EXAMPLES) == set(Reason)
