"""Reading and provably editing an engine container's command line.

`read(container, image_call)` gives a `Program`; `rewrite(program, edits)` gives the container's new
`command` and `args`. Nothing here knows connectors or flags.

The files import one another in one direction: budget, places, text, quoting, kubernetes and model
(data) -> programs, runners, exec_form -> shell/{grammar, script, variables, expansion, commands} ->
program, calls, start_script, environment -> reader -> proof -> edit.
"""

from function.command.edit import rewrite
from function.command.environment import Change, changes
from function.command.model import (
    OPT_IN,
    Append,
    ConfigFile,
    Delete,
    Edit,
    EngineCall,
    ImageCall,
    Replace,
    Word,
)
from function.command.program import Program
from function.command.reader import read, started
from function.command.start_script import inlined

__all__ = [
    "OPT_IN",
    "Append",
    "Change",
    "ConfigFile",
    "Delete",
    "Edit",
    "EngineCall",
    "ImageCall",
    "Program",
    "Replace",
    "Word",
    "changes",
    "inlined",
    "read",
    "rewrite",
    "started",
]
