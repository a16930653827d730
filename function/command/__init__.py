"""Reading and provably editing an engine container's command line.

`read(container, image_call)` gives a `Program`; `Program.rewrite(edits)` gives the container's new
`command` and `args`. Nothing here knows connectors or flags.
"""

from function.command.model import (
    OPT_IN,
    Append,
    Delete,
    Edit,
    EngineCall,
    ImageCall,
    Program,
    Replace,
    Word,
)
from function.command.reader import read

__all__ = [
    "OPT_IN",
    "Append",
    "Delete",
    "Edit",
    "EngineCall",
    "ImageCall",
    "Program",
    "Replace",
    "Word",
    "read",
]
