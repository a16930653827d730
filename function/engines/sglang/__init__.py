"""SGLang 0.5.5 to 0.5.23."""

import re
from pathlib import Path

from function.api.engines import SGLANG
from function.contract.rules import RecordedSeries
from function.engines.kind import EngineKind, EventFlags, Flags, ImageNames, RankFlags
from function.engines.sglang import plan, read
from function.engines.sglang.config import CONFIG
from function.engines.sglang.flags import IDENTITY, TABLE
from function.facts import Table
from function.workloads.model import DECODE, PREFILL

_MODE = "--disaggregation-mode"
_PHASES = {"prefill": PREFILL, "decode": DECODE}


def _phase(flags: Flags) -> str:
    return _PHASES.get(flags.get(_MODE) or "", "")


KIND = EngineKind(
    name=SGLANG,
    distribution="sglang",
    start="python3 -m sglang.launch_server",
    model_flag="--model-path",
    port=30000,
    ranks=RankFlags(
        shared=("--tp-size", "--pp-size"), replicas="--dp-size", attention="--enable-dp-attention"
    ),
    identity=IDENTITY,
    read=read.effective,
    flag_name=TABLE.name,
    loose=lambda call: read.read(call).loose,
    plan=plan.plan,
    phase=_phase,
    # Decode engines reach a prefill engine at its --host.
    pair={PREFILL: {_MODE: "prefill", "--host": "0.0.0.0"}, DECODE: {_MODE: "decode"}},
    images=ImageNames(stock=re.compile(r"(?:^|-)sglang(?:-|$)")),
    events=EventFlags(block="--page-size"),
    config=CONFIG,
    records=Table(RecordedSeries, Path(__file__).with_name("records.yaml"), "records"),
)
