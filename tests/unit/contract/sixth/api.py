"""`spec.sixth` of a KVOffloadTier."""

from typing import Annotated

from pydantic import Field

from function.api.base import ApiModel


class SixthSpec(ApiModel):
    """Settings of backend Sixth."""

    size_gib: Annotated[int, Field(ge=1, le=4096)]
    """Host memory of a pod, in GiB."""
