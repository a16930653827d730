"""Rounds of requirements: how often a function is called, and with what, as core does it."""

from typing import Any

import pytest
from crossplane.function import response
from crossplane.function.proto.v1 import run_function_pb2 as fnv1

from kv_offload.render import reconcile

XR = {
    "apiVersion": "example.org/v1",
    "kind": "Thing",
    "metadata": {"name": "thing", "namespace": "default"},
    "spec": {},
}


def _map(name: str, namespace: str = "default", **labels: str) -> dict[str, Any]:
    metadata = {"name": name, "namespace": namespace, "labels": labels}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}


class Asks:
    """Asks on its n-th call for what `plan[n]` says (the last one again and again)."""

    def __init__(self, *plan: dict[str, dict[str, str]]) -> None:
        self.plan = plan
        self.got: list[dict[str, list[str]]] = []

    async def RunFunction(self, req: fnv1.RunFunctionRequest, _: Any) -> fnv1.RunFunctionResponse:
        self.got.append(
            {
                name: [item.resource["metadata"]["name"] for item in found.items]
                for name, found in req.required_resources.items()
            }
        )
        rsp = response.to(req)
        for name, wanted in self.plan[min(len(self.got), len(self.plan)) - 1].items():
            selector = rsp.requirements.resources[name]
            selector.api_version, selector.kind = "v1", "ConfigMap"
            for field, value in wanted.items():
                if field == "labels":
                    selector.match_labels.labels["team"] = value
                else:
                    setattr(selector, field, value)
        return rsp


def _render(runner: Any, required: list[dict[str, Any]]) -> reconcile.Rendered:
    composition = {
        "metadata": {"name": "c"},
        "spec": {"pipeline": [{"step": "s", "functionRef": {"name": "f"}}]},
    }
    inputs = reconcile.Inputs(XR, composition, {"f": runner}, required=required)
    return reconcile.render(inputs)


@pytest.mark.parametrize(
    ("plan", "got"),
    [
        ([{}], [{}]),
        (
            [{"one": {"match_name": "a", "namespace": "default"}}],
            [{}, {"one": ["a"]}],
        ),
        ([{"absent": {"match_name": "a"}}], [{}, {"absent": []}]),
        ([{"team": {"labels": "x"}}], [{}, {"team": ["a", "b", "z"]}]),
        (
            [{"team": {"labels": "x", "namespace": "default"}}],
            [{}, {"team": ["b", "z"]}],
        ),
        # Only what the last answer asked for is sent; what it dropped is gone.
        (
            [{"p": {"match_name": "a"}}, {"q": {"match_name": "a"}}],
            [{}, {"p": []}, {"q": []}],
        ),
    ],
)
def test_required_resources_of_each_round(plan: list, got: list) -> None:
    runner = Asks(*plan)
    required = [_map("z", team="x"), _map("b", team="x"), _map("a", "alpha", team="x"), _map("a")]
    rendered = _render(runner, required)
    assert runner.got == got
    assert rendered.calls == {"s": len(got)}


def test_function_is_called_at_most_six_times() -> None:
    runner = Asks(*({f"n{i}": {"match_name": "a"}} for i in range(9)))
    with pytest.raises(reconcile.RenderError, match="didn't stabilize"):
        _render(runner, [])
    assert len(runner.got) == 6


def test_a_fatal_ends_the_rounds() -> None:
    class Fatal(Asks):
        async def RunFunction(self, req: Any, _: Any) -> fnv1.RunFunctionResponse:
            rsp = await super().RunFunction(req, _)
            response.fatal(rsp, "no")
            return rsp

    runner = Fatal({"one": {"match_name": "a"}})
    rendered = _render(runner, [])
    assert len(runner.got) == 1
    assert rendered.fatal == 'pipeline step "s" returned a fatal result: no'


def test_the_shortest_ttl_wins() -> None:
    class Ttl:
        def __init__(self, seconds: int) -> None:
            self.seconds = seconds

        async def RunFunction(self, req: Any, _: Any) -> fnv1.RunFunctionResponse:
            rsp = response.to(req)
            rsp.meta.ttl.FromSeconds(self.seconds)
            return rsp

    steps = [{"step": f"s{n}", "functionRef": {"name": f"f{n}"}} for n in (60, 0, 10)]
    composition = {"metadata": {"name": "c"}, "spec": {"pipeline": steps}}
    runners = {f"f{n}": Ttl(n) for n in (60, 0, 10)}
    assert reconcile.render(reconcile.Inputs(XR, composition, runners)).ttl_seconds == 10
