"""Engine flags: reading them as the engine does, and the edits that bring in a tier's.

`read` gives the effective flags of an engine call, `plan` what has to change for an Injection: the
edits of its words, or what is appended for a script that expands $KV_OFFLOAD_ARGS, and what a
person should know of the result. They raise Refused and change nothing.
"""

from function.command.model import EngineCall
from function.contract.engine import SGLANG, VLLM, Engine
from function.contract.injection import Injection
from function.engines.phases import hands_over, phase
from function.engines.plan import FlagPlan
from function.engines.sglang import plan as sglang_plan
from function.engines.sglang import read as sglang_read
from function.engines.vllm import plan as vllm_plan
from function.engines.vllm import read as vllm_read

__all__ = ["FlagPlan", "hands_over", "phase", "plan", "read"]

_READ = {VLLM: vllm_read.effective, SGLANG: sglang_read.effective}
_PLAN = {VLLM: vllm_plan.plan, SGLANG: sglang_plan.plan}


def read(engine_name: str, call: EngineCall) -> dict[str, str | None]:
    """The effective flags of `call`: canonical dashed names, the last one wins.

    None stands for a switch and for a value that is not static. Of a switch and its `--no-` form
    the one that counts is there. `--model` is the model, also where it is a positional word (for
    SGLang `--model-path`).
    """
    return _READ[engine_name](call)


def plan(call: EngineCall, engine: Engine, injection: Injection) -> FlagPlan:
    """What has to be set on `call` so that the engine uses the injection. Raises Refused."""
    return _PLAN[engine.name](call, engine, injection)
