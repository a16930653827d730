"""Rules read documents of any shape: pydantic reports the shape, no rule fails on it."""

import pytest

from function.api.deployment import ModelDeploymentSpec
from function.api.walk import DocumentView, UnreadableField


def test_iterated_object_is_an_unreadable_field() -> None:
    view = DocumentView(ModelDeploymentSpec, {}, (), frozenset())
    with pytest.raises(UnreadableField):
        list(view)  # type: ignore[call-overload]
