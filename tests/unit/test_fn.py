"""The function as Crossplane sees it: a response to every request, also after a bug."""

import asyncio

import pytest
from crossplane.function import resource
from crossplane.function.proto.v1 import run_function_pb2 as fnv1

from function import fn
from function.edge.answer import Answer

XR = {"apiVersion": "example.org/v1", "kind": "App", "metadata": {"name": "a"}}


def request() -> fnv1.RunFunctionRequest:
    req = fnv1.RunFunctionRequest(meta=fnv1.RequestMeta(tag="t"))
    req.observed.composite.resource.CopyFrom(resource.dict_to_struct(XR))
    req.desired.resources["theirs"].resource.CopyFrom(resource.dict_to_struct({"kind": "Theirs"}))
    req.context["theirs"] = True
    return req


def run(req: fnv1.RunFunctionRequest) -> fnv1.RunFunctionResponse:
    return asyncio.run(fn.FunctionRunner().RunFunction(req, None))


def test_bug_is_a_fatal_that_names_its_composer(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> Answer:
        raise KeyError("secret-value-in-a-local")

    monkeypatch.setattr(fn, "_CONSUMER", ("consumer", broken))
    rsp = run(request())
    (result,) = rsp.results
    assert result.severity == fnv1.SEVERITY_FATAL
    assert "composer 'consumer'" in result.message
    assert set(rsp.desired.resources) == {"theirs"}, "what others desire is kept"


# What a bug raises -> what its fatal says of it
BUGS = {
    "an address": (TypeError(object()), "(TypeError: <object object at (pointer)>)"),
    "no character": (ValueError("\ud800"), "(ValueError: ?)"),
    "a credential": (
        ValueError("--api-key=sk-1 is bad"),
        "(ValueError: --api-key=(hidden) is bad)",
    ),
}


@pytest.mark.parametrize("name", BUGS)
def test_bug_is_said_as_people_may_read_it(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    bug, said = BUGS[name]

    def broken(*_: object) -> Answer:
        raise bug

    monkeypatch.setattr(fn, "_CONSUMER", ("consumer", broken))
    (result,) = run(request()).results
    assert said in result.message


def test_unknown_composite_passes_through_unchanged() -> None:
    req = request()
    rsp = run(req)
    assert rsp.desired == req.desired
    assert dict(rsp.context) == dict(req.context)
    assert (rsp.meta.tag, list(rsp.results), list(rsp.conditions)) == ("t", [], [])


@pytest.mark.parametrize("given", [{}, {"kind": "X"}, {"metadata": {}}])
def test_empty_composite_is_no_bug(given: dict) -> None:
    req = fnv1.RunFunctionRequest()
    req.observed.composite.resource.CopyFrom(resource.dict_to_struct(given))
    assert list(run(req).results) == []


KINDS = ("KVOffloadTier", "InferenceCluster", "ModelDeployment")


@pytest.mark.parametrize("mode", ["Wire", "Compose"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("spec", [{}, None, {"backend": 7}, []], ids=str)
def test_malformed_own_kinds_are_never_a_bug(kind: str, mode: str, spec: object) -> None:
    document = {
        "apiVersion": "modelplane.ai/v1alpha1",
        "kind": kind,
        "metadata": {"name": "a", "namespace": "b"},
        "spec": spec,
    }
    req = fnv1.RunFunctionRequest()
    req.observed.composite.resource.CopyFrom(resource.dict_to_struct(document))
    req.input.CopyFrom(resource.dict_to_struct({"mode": mode}))
    assert not [r.message for r in run(req).results if "has a bug" in r.message]
