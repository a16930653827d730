"""vLLM 0.20 to 0.33."""

import re
from pathlib import Path

from function.api.engines import VLLM
from function.contract.rules import RecordedSeries
from function.engines.kind import EngineKind, EventFlags, ImageNames, RankFlags
from function.engines.vllm import connectors, phases, plan, read
from function.engines.vllm.config import CONFIG
from function.engines.vllm.flags import IDENTITY, TABLE
from function.facts import Table

KIND = EngineKind(
    name=VLLM,
    distribution="vllm",
    start="vllm serve",
    model_flag="--model",
    port=8000,
    # vLLM's ParallelConfig.world_size.
    ranks=RankFlags(
        shared=(
            "--tensor-parallel-size",
            "--pipeline-parallel-size",
            "--prefill-context-parallel-size",
        ),
        replicas="--data-parallel-size",
        local="--data-parallel-size-local",
        placed=("--distributed-executor-backend", "--data-parallel-backend"),
    ),
    identity=IDENTITY,
    read=read.effective,
    flag_name=TABLE.name,
    loose=lambda call: read.read(call).loose,
    plan=plan.plan,
    phase=phases.phase,
    transfers=phases.transfers,
    connectors=phases.own_connectors,
    layouts=connectors.layouts,
    images=ImageNames(
        stock=re.compile(r"(?:^|-)vllm-openai(?:-|$)"),
        own=re.compile(r"(?:^|-)vllm(?:-(?:cpu|cuda|gpu|rocm))?$"),
        leading=re.compile(r"v?(0\.\d{1,4}(?:\.\d{1,4})?)(?=$|[-_+.r])"),
    ),
    events=EventFlags(block="--block-size", config={"enable_kv_cache_events": True}, merged=True),
    config=CONFIG,
    records=Table(RecordedSeries, Path(__file__).with_name("records.yaml"), "records"),
)
