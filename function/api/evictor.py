"""The evictor of cached files, for every backend that stores files."""

from typing import Annotated

from pydantic import Field

from function.api.base import ApiModel, FieldRule, rows


class Evictor(ApiModel):
    """How cached files are kept below their size: least recently used ones first."""

    high_percent: Annotated[int, Field(ge=10, le=100)] = 95
    low_percent: Annotated[int, Field(ge=5, le=100)] = 90
    keep_free_percent: Annotated[int, Field(ge=0, le=50)] = 5
    dry_run: bool = False

    rules = rows(FieldRule, __file__, "Evictor")
