"""Compatibility of prefill and decode engines, else found at the first request.

vLLM hashes version, model string, dtypes and attention backend into its handshake. SGLang compares
page size and the value of --kv-cache-dtype, where `auto` matches any: decode then answers nonsense.
An unknown value, or one that the engine chooses itself, passes.
"""

from collections.abc import Iterator, Sequence

from function.api.engines import SGLANG, VLLM
from function.backends.nixl import facts
from function.contract.engine import Engine
from function.problems import Refused
from function.reasons import Reason
from function.workloads.model import DECODE, PREFILL

# Flags that must be equal, with what an absent one means; "" for the engine's own choice.
_EQUAL = {
    VLLM: {"--attention-backend": "", "--block-size": "", "--dtype": "auto",
           "--kv-cache-dtype": "auto"},
    SGLANG: {"--dtype": "auto", "--kv-cache-dtype": "auto", "--page-size": ""},
}  # fmt: skip
_REFUSED = "they would refuse each other at the first request"
_UNSEEN = {(SGLANG, "--dtype"): "SGLang does not compare it, and decode would answer nonsense"}
_RANKS = {VLLM: "--tensor-parallel-size", SGLANG: "--tp-size"}


def check(engines: Sequence[Engine]) -> None:
    """Raise Refused where a prefill engine and a decode engine are incompatible."""
    disaggregation = {
        phase: [engine for engine in engines if engine.phase == phase] for phase in facts.ROLES
    }
    problems = {
        str(problem): problem
        for prefill in disaggregation[PREFILL]
        for decode in disaggregation[DECODE]
        for problem in _problems(prefill, decode)
    }
    if problems:
        raise Refused.all_of(list(problems.values()))


def _problems(prefill: Engine, decode: Engine) -> Iterator[Refused]:
    if prefill.name != decode.name:
        yield Refused(
            Reason.ENGINE_UNSUPPORTED,
            f"The prefill engine is {prefill.name} and the decode engine {decode.name}: blocks "
            "move between equal engines only. Run one engine on both, or give each pair a tier.",
        )
        return
    if prefill.name == VLLM:
        yield from _vllm_problems(prefill, decode)
    for flag, default in _EQUAL[prefill.name].items():
        here, there = _value(prefill, flag, default), _value(decode, flag, default)
        if here and there and here != there:
            then = _UNSEEN.get((prefill.name, flag), _REFUSED)
            yield Refused(
                Reason.CONNECTOR_CONFLICT,
                f"{flag} is {here} at prefill and {there} at decode: {then}. Make them equal.",
            )
    yield from _ranks(prefill, decode)


def _vllm_problems(prefill: Engine, decode: Engine) -> Iterator[Refused]:
    if prefill.version and decode.version and prefill.version != decode.version:
        yield Refused(
            Reason.VERSION_MISMATCH,
            f"Prefill is vLLM {prefill.version} and decode {decode.version}: {_REFUSED}. Run one "
            "image on both.",
        )
    if prefill.model and decode.model and prefill.model != decode.model:
        yield Refused(
            Reason.CONNECTOR_CONFLICT,
            f"The model argument is {prefill.model} at prefill and {decode.model} at decode: vLLM "
            "compares the text. Make them equal.",
        )


def _ranks(prefill: Engine, decode: Engine) -> Iterator[Refused]:
    flag = _RANKS[prefill.name]
    here, there = _value(prefill, flag, "1"), _value(decode, flag, "1")
    if not (here.isdecimal() and there.isdecimal() and max(len(here), len(there)) < 10):
        return
    one, other = sorted((max(1, int(here)), max(1, int(there))))
    if other % one:
        yield Refused(
            Reason.ENGINE_UNSUPPORTED,
            f"{flag} is {here} at prefill and {there} at decode: one must divide the other.",
        )


def _value(engine: Engine, flag: str, default: str) -> str:
    """Return the flag's value, "" where it is unknown."""
    return (engine.flag(flag) or "") if engine.has(flag) else default
