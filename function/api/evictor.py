"""What keeps files of cached blocks under their size, for every backend that has such files."""

from typing import Annotated

from pydantic import Field

from function.api.base import ApiModel, Rule


class Evictor(ApiModel):
    """How files of cached blocks are kept under their size: what was used least recently goes."""

    high_percent: Annotated[int, Field(ge=10, le=100)] = Field(
        default=95, description="Share of the size above which files are removed, in percent."
    )
    low_percent: Annotated[int, Field(ge=5, le=100)] = Field(
        default=90, description="Share of the size down to which they are removed, in percent."
    )
    keep_free_percent: Annotated[int, Field(ge=0, le=50)] = Field(
        default=5,
        description="Share of the file system's bytes and of its inodes that stays free, whoever "
        "filled it, in percent. 0: only the size counts.",
    )
    dry_run: bool = Field(
        default=False,
        description="Remove nothing; the log and the metrics say what would go. The files then "
        "grow until the disk is full.",
    )

    rules = (
        Rule(
            "self.lowPercent <= self.highPercent",
            "lowPercent must not be larger than highPercent",
            "lowPercent",
        ),
    )
