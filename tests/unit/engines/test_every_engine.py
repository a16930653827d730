"""What every engine of the registry must satisfy."""

import pytest

from function import command
from function.api.engines import ENGINES
from function.contract.engine import Engine
from function.contract.injection import Injection
from function.contract.versions import known_versions
from function.engines import events, ranks
from function.engines.registry import kind
from function.workloads.model import DECODE, PREFILL
from tests.unit.engines.helpers import apply, planned

each = pytest.mark.parametrize("name", ENGINES)


def _call(name: str, *words: str) -> command.EngineCall:
    one = kind(name)
    container = {"command": one.start.split(), "args": [one.model_flag, "org/model", *words]}
    (call,) = command.read(container).calls
    return call


@each
def test_start_command_and_model_are_recognised(name: str) -> None:
    call = _call(name)
    assert (kind(name).name, call.engine) == (name, name)
    assert kind(name).read(call)[kind(name).model_flag] == "org/model"


@each
def test_a_flag_is_set_once_and_another_value_is_refused(name: str) -> None:
    flag = next(f for f, default in kind(name).identity[0].flags.items() if default == "1")
    injection, engine = Injection("x", flags={flag: "2"}), Engine(name)
    wired = apply(_call(name), planned(_call(name), engine, injection).edits())
    assert wired[-2:] == [flag, "2"]
    assert planned(_call(name, flag, "2"), engine, injection).edits() == []
    with pytest.raises(Exception, match="the tier needs"):
        planned(_call(name, flag, "3"), engine, injection).edits()


@each
def test_processes_are_counted(name: str) -> None:
    flags = kind(name).ranks
    engine = Engine(name, flags={flags.shared[0]: "4", flags.replicas: "2"}, pods=2)
    assert (ranks.sharing(engine), ranks.replicas(engine), ranks.workers(engine)) == (4, 2, 4)
    assert ranks.is_node_local(Engine(name, flags=engine.flags))
    assert events.serving(Engine(name)) == kind(name).port
    assert events.serving(Engine(name, flags={"--port": "8123"})) == 8123


@each
def test_the_flags_of_a_phase_are_read_as_that_phase(name: str) -> None:
    assert kind(name).phase({}) == ""
    for phase, flags in kind(name).pair.items():
        assert phase in (PREFILL, DECODE)
        assert kind(name).phase(flags) == phase


@each
def test_versions_and_identity_flags_are_declared(name: str) -> None:
    (inputs,) = kind(name).identity
    assert known_versions(name)
    assert inputs.switches | inputs.gone | inputs.with_switch.keys() <= inputs.flags.keys()
