"""What an SGLang engine call must end up with for an Injection, or why it cannot."""

from function.command.model import EngineCall
from function.contract.engine import Engine
from function.contract.injection import Injection
from function.engines import config_file
from function.engines import plan as plans
from function.engines.plan import FlagPlan
from function.engines.sglang.config import CONFIG
from function.engines.sglang.flags import TABLE
from function.engines.sglang.read import effective, read
from function.engines.sglang.rules import RULES, Flags
from function.problems import Refused
from function.reasons import Reason


def plan(call: EngineCall, engine: Engine, injection: Injection) -> FlagPlan:
    """Return the flags to set. Raise Refused: ConnectorConflict, ArgsNotPatchable."""
    if not injection.flags:
        return FlagPlan(call)
    config_file.check(CONFIG, call)
    scanned = read(call)
    plans.legible(scanned, TABLE, (*injection.flags, config_file.FLAG))
    taken = plans.guard(call, scanned, injection.flags, engine)
    sets = plans.flag_sets(injection.flags, scanned)
    before = effective(call)
    _size_over_ratio(before, injection.flags)
    after = {**before, **injection.flags}
    for rule in RULES:
        if rule.fatal and rule.holds(after):
            raise Refused(
                Reason.CONNECTOR_CONFLICT,
                f"{rule.about}; the tier brings {_ours(injection)}: change the pod's own flags, or"
                " name another tier",
            )
    notes = tuple(rule.about for rule in RULES if not rule.fatal and rule.holds(after))
    return FlagPlan(call, tuple(sets), taken + notes)


def _size_over_ratio(before: Flags, ours: Flags) -> None:
    if "--hicache-ratio" in before and ours.get("--hicache-size") not in (None, "0"):
        raise Refused(
            Reason.CONNECTOR_CONFLICT,
            f"the user has --hicache-ratio {before['--hicache-ratio']}, and the tier's "
            f"--hicache-size {ours['--hicache-size']} would override it; remove --hicache-ratio",
        )
    if before.get("--hicache-size", "0") != "0" and "--hicache-ratio" in ours:
        raise Refused(
            Reason.CONNECTOR_CONFLICT,
            f"the user's --hicache-size {before['--hicache-size']} would override the tier's "
            f"--hicache-ratio {ours['--hicache-ratio']}; remove --hicache-size",
        )


def _ours(injection: Injection) -> str:
    return " ".join(sorted(injection.flags))
