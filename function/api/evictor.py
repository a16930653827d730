"""The evictor of cached files, for every backend that stores files."""

from typing import Annotated

from pydantic import Field

from function.api.base import ApiModel, FieldRule


class Evictor(ApiModel):
    """How cached files are kept below their size: least recently used ones first."""

    high_percent: Annotated[int, Field(ge=10, le=100)] = 95
    """Share of the size above which eviction starts, in percent."""
    low_percent: Annotated[int, Field(ge=5, le=100)] = 90
    """Share of the size at which eviction ends, in percent."""
    keep_free_percent: Annotated[int, Field(ge=0, le=50)] = 5
    """Share of the file system's bytes and inodes that stays free, in percent, including files of
    others. 0: only the size counts."""
    dry_run: bool = False
    """Remove nothing; log and metrics report what eviction would remove. The files grow until the
    disk is full."""

    rules = (
        FieldRule(
            "self.lowPercent <= self.highPercent",
            "lowPercent must not be larger than highPercent",
            "lowPercent",
        ),
    )
