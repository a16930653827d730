"""How long an answer holds, on a core that watches what is required and on one that does not."""

from typing import Any

import pytest
from crossplane.function.proto.v1 import run_function_pb2 as fnv1

from function.fn import FunctionRunner
from tests.unit.composers import documents as d
from tests.unit.composers.calls import Document, call, observe, request

KEY = "model-serving-main"
RUNNER = FunctionRunner(clock=lambda: 0.0)


class Core:
    """Core's runner, which fetches what is required. `remembers`: as 2.4, until a restart."""

    def __init__(self, there: dict[str, list[Document]], *, remembers: bool) -> None:
        self.there, self.remembers = there, remembers
        self.known: dict[str, list[Document]] = {}
        self.bootstrap: dict[str, list[Document]] = {}

    def reconcile(self, composite: Document, **given: Any) -> fnv1.RunFunctionResponse:
        found, wanted, context = self.bootstrap | self.known, None, None
        for _ in range(5):
            asked = request(composite, required=found, **given)
            if context is not None:
                asked.context.CopyFrom(context)
            response = RUNNER.run(asked)
            names = sorted(response.requirements.resources)
            fetched = self.bootstrap | {name: self.there.get(name, []) for name in names}
            if names == wanted or (self.remembers and context is None and fetched == found):
                self.known = fetched if self.remembers else {}
                return response
            wanted, found, context = names, fetched, response.context
        raise AssertionError("the requirements do not settle")


def consumer() -> tuple[Document, dict[str, Any], dict[str, list[Document]]]:
    return d.replica(), {"desired": {KEY: d.engine()}}, d.requirements(d.ready_tier())


def fleet() -> tuple[Document, dict[str, Any], dict[str, list[Document]]]:
    selector = {"matchLabels": {"fleet": "prod"}}
    tier = d.tier(inferenceClusterRef=None, clusterSelector=selector)
    there = {"clusters": [d.cluster("eu")]}
    return tier, {"observed": observe(call(tier, required=there))}, there


def ttls(core: Core, composite: Document, given: dict[str, Any], times: int = 3) -> list[int]:
    return [core.reconcile(composite, **given).meta.ttl.seconds for _ in range(times)]


@pytest.mark.parametrize("made", [consumer, fleet])
def test_answer_holds_longer_once_core_has_shown_that_it_watches(made: Any) -> None:
    composite, given, there = made()
    assert ttls(Core(there, remembers=False), composite, given) == [300, 300, 300]
    core = Core(there, remembers=True)
    assert ttls(core, composite, given) == [300, 900, 900]
    core.known = {}  # a restart of core
    assert ttls(core, composite, given, 2) == [300, 900]


def test_watched_composite_whose_breaker_is_open_is_looked_at_often() -> None:
    composite, given, there = consumer()
    core = Core(there, remembers=True)
    ttls(core, composite, given)
    composite["status"] = {"conditions": [{"type": "Responsive", "status": "False"}]}
    assert ttls(core, composite, given, 1) == [30]


def test_held_back_consumer_does_not_poll_where_core_watches() -> None:
    composite, given, there = consumer()
    there["tier/modelplane-system/chat"] = []
    assert ttls(Core(there, remembers=False), composite, given) == [10, 10, 10]
    assert ttls(Core(there, remembers=True), composite, given) == [10, 30, 30]


def test_some_requirements_of_the_composition_itself_prove_nothing() -> None:
    """Bootstrap requirements come with the first call on every core."""
    composite, given, there = consumer()
    core = Core(there, remembers=False)
    core.bootstrap = {"tier/modelplane-system/chat": there["tier/modelplane-system/chat"]}
    assert ttls(core, composite, given) == [300, 300, 300]


def test_settled_call_leaves_no_mark_in_the_context_of_others() -> None:
    composite, given, there = consumer()
    core = Core(there, remembers=True)
    assert dict(core.reconcile(composite, **given).context) == {
        "modelplane.ai/kv-offload-asked": True
    }
    assert dict(core.reconcile(composite, **given).context) == {}
