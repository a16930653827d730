"""Third 1.0 and 1.1: an engine with a command, flags and ranks of its own, and no config file."""

from function.command.model import EngineCall
from function.contract.engine import Engine
from function.contract.injection import Injection
from function.engines import plan as plans
from function.engines.kind import EngineKind, EventFlags, IdentityInputs, RankFlags
from function.engines.plan import FlagPlan
from function.engines.scan import FlagGroup, Options, Scan, scan

_ONE = "model cards replicas block dtype port sixth-cache-gib kv-events-config weights-revision"
_OPTIONS = Options(
    [FlagGroup("1", tuple(_ONE.split()), aliases={"-m": "--model"}), FlagGroup("0", ("eager",))]
)


def _scan(call: EngineCall) -> Scan:
    return scan(call.words, _OPTIONS, model_first=call.positional_model)


def _read(call: EngineCall) -> dict[str, str | None]:
    scanned = _scan(call)
    flags = {use.name: use.raw for use in scanned.uses}
    if scanned.positionals:
        flags.setdefault("--model", scanned.positionals[0])
    return flags


def _plan(call: EngineCall, engine: Engine, injection: Injection) -> FlagPlan:
    scanned = _scan(call)
    plans.legible(scanned, _OPTIONS, injection.flags)
    notes = plans.guard(call, scanned, injection.flags, engine)
    return FlagPlan(call, tuple(plans.flag_sets(injection.flags, scanned)), notes)


KIND = EngineKind(
    name="Third",
    distribution="third-engine",
    start="third serve",
    model_flag="--model",
    port=9000,
    ranks=RankFlags(shared=("--cards",), replicas="--replicas"),
    identity=[IdentityInputs(flags={"--cards": "1", "--dtype": "auto"})],
    read=_read,
    loose=lambda call: _scan(call).loose,
    plan=_plan,
    events=EventFlags(block="--block"),
)
