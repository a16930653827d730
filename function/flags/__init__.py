"""Engine flags: reading them as the engine does, and the edits that bring in a tier's.

`read` gives the effective flags of an engine call, `edits` the changes of its words for an
Injection, `opt_in_value` what is appended, for a script that expands $KV_OFFLOAD_ARGS, and `notes`
what a person should know of the result. They raise Refused with a reason of `function.reasons` and
change nothing.
"""

from collections.abc import Mapping
from typing import Any

from function.command.model import Edit, EngineCall
from function.contract.engine import SGLANG, VLLM, Engine
from function.contract.injection import Injection
from function.flags import plan as plans
from function.flags.sglang import read as sglang_read
from function.flags.vllm import plan as vllm_plan
from function.flags.vllm import read as vllm_read

__all__ = ["edits", "notes", "opt_in_value", "read"]

_READ = {VLLM: vllm_read.effective, SGLANG: sglang_read.effective}
_PLAN = {VLLM: vllm_plan.plan, SGLANG: sglang_read.plan}


def read(
    engine_name: str, call: EngineCall, *, file: Mapping[str, Any] | None = None
) -> dict[str, str | None]:
    """The effective flags of `call`: canonical dashed names, the last one wins.

    None stands for a switch and for a value that is not static. Of a switch and its `--no-` form
    the one that counts is there. `--model` is the model, also where it is a positional word (for
    SGLang `--model-path`). `file`: the parsed `--config` file, where it is visible.
    """
    return _READ[engine_name](call, file)


def edits(
    call: EngineCall,
    engine: Engine,
    injection: Injection,
    *,
    file: Mapping[str, Any] | None = None,
) -> list[Edit]:
    """The edits of `call`'s words: replacements and deletions by index, then what is appended.

    Empty where nothing has to change. A call that opted in gets no Append: what would be appended
    is in `opt_in_value`, and both belong together.
    """
    return plans.edits(call, _PLAN[engine.name](call, engine, injection, file))


def opt_in_value(
    call: EngineCall,
    engine: Engine,
    injection: Injection,
    *,
    file: Mapping[str, Any] | None = None,
) -> str:
    """What `edits` would append, as the value of the env variable KV_OFFLOAD_ARGS.

    "" where nothing has to be appended. Its words survive an unquoted expansion (JSON escapes
    white space, `*` and `?`), or the parsing of an `eval` where the script has one.
    """
    return plans.opt_in(call, _PLAN[engine.name](call, engine, injection, file))


def notes(
    call: EngineCall,
    engine: Engine,
    injection: Injection,
    *,
    file: Mapping[str, Any] | None = None,
) -> tuple[str, ...]:
    """What a person should know of the result, though nothing stands in its way."""
    return _PLAN[engine.name](call, engine, injection, file).notes
