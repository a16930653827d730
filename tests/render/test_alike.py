"""Random pipelines render equally through both engines: composites and fake steps by hypothesis.

A difference that it finds becomes a render case.
"""

from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from kv_offload.render import emit, files
from tests.render import engines, run, standin
from tests.render.case import Case, Pass

_NAMES = st.sampled_from(["a", "b", "c", "a-longer-name", "x" * 50])
_KEYS = st.sampled_from(["one", "two", "three", "four", "k2", "k10"])
_NAMESPACES = st.sampled_from(["default", "other"])
_STATUSES = st.sampled_from(["True", "False", "Unknown"])
_TYPES = st.sampled_from(["Ours", "Theirs", "Ready", "Synced", "Responsive", "Healthy"])
_TEXTS = st.sampled_from(["", "plain", "yes", 'a "quoted" one', "two\nlines", "ä: ☃", "1e3"])
_KINDS = st.sampled_from([("v1", "ConfigMap"), ("v1", "Secret"), ("apps/v1", "Deployment")])
_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 2**40) | st.floats(-1e3, 1e3) | _TEXTS,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(_KEYS, inner, max_size=2),
    max_leaves=4,
)


def _some(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """An object with any of these fields."""
    return st.fixed_dictionaries({}, optional=fields)


_CONDITIONS = st.lists(
    st.fixed_dictionaries(
        {"type": _TYPES, "status": _STATUSES, "reason": st.sampled_from(["Some", "Other"])},
        optional={"message": _TEXTS},
    ),
    max_size=3,
)


@st.composite
def _documents(draw: st.DrawFn) -> dict[str, Any]:
    api_version, kind = draw(_KINDS)
    metadata = draw(
        _some(
            name=_NAMES,
            namespace=_NAMESPACES,
            generateName=st.just("pre-"),
            labels=st.just({"team": "a"}),
            annotations=st.just({"note": "b"}),
        )
    )
    body = draw(_some(data=st.dictionaries(_KEYS, _TEXTS, max_size=2), spec=_VALUES))
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **body}


_RESOURCES = st.dictionaries(
    _KEYS,
    st.fixed_dictionaries(
        {"resource": _documents()},
        optional={"ready": st.sampled_from(["True", "False", "Observed"])},
    ),
    max_size=4,
)
_SELECTORS = st.dictionaries(
    _KEYS,
    st.fixed_dictionaries(
        {"apiVersion": st.just("v1"), "kind": st.sampled_from(["ConfigMap", "Secret"])},
        optional={
            "namespace": _NAMESPACES,
            "name": _NAMES,
            "matchLabels": st.just({"team": "a"}),
        },
    ),
    max_size=2,
)
_RESULTS = st.lists(
    st.fixed_dictionaries(
        {
            # Fatal is rare, or little would be left to see.
            "severity": st.sampled_from(["Normal", "Warning"] * 5 + ["Fatal"]),
            "message": _TEXTS.filter(bool),
        },
        optional={"reason": st.just("Because")},
    ),
    max_size=2,
)
_INPUTS = _some(
    resources=_RESOURCES,
    remove=st.lists(_KEYS, max_size=2),
    composite=_some(
        ready=st.sampled_from(["True", "False"]), status=st.dictionaries(_KEYS, _VALUES, max_size=3)
    ),
    conditions=_CONDITIONS,
    results=_RESULTS,
    context=st.dictionaries(_KEYS, _VALUES, max_size=2),
    require=_SELECTORS,
    chain=st.integers(0, 7),
    report=st.just(True),
)


@st.composite
def _required(draw: st.DrawFn) -> dict[str, Any]:
    document = draw(_documents())
    document["metadata"] |= {"name": draw(_NAMES)}
    return document


@st.composite
def _composites(draw: st.DrawFn) -> dict[str, Any]:
    metadata = {"name": draw(_NAMES)} | draw(
        _some(
            namespace=_NAMESPACES,
            uid=st.just("11111111-2222-3333-4444-555555555555"),
            generation=st.integers(1, 9),
            labels=st.sampled_from([{}, {"crossplane.io/composite": "root"}, {"team": "a"}]),
        )
    )
    status = draw(st.dictionaries(_KEYS, _VALUES, max_size=2))
    conditions = draw(_CONDITIONS)
    if conditions:
        unique = {c["type"]: c | {"lastTransitionTime": "2025-05-05T05:05:05Z"} for c in conditions}
        status["conditions"] = list(unique.values())
    spec = draw(st.dictionaries(_KEYS, _VALUES, max_size=2))
    xr = {"apiVersion": "example.org/v1", "kind": "Thing", "metadata": metadata, "spec": spec}
    return xr | ({"status": status} if status else {})


class MadeUp(Case):
    """A case without a folder: its Composition and required documents are given."""

    def given(self, steps: list[dict[str, Any]], required: list[dict[str, Any]]) -> "MadeUp":
        pipeline = [
            {
                "step": f"step-{number}",
                "functionRef": {"name": standin.NAME},
                "input": {"apiVersion": "tests.kv-offload/v1", "kind": "StandIn", **asked},
            }
            for number, asked in enumerate(steps)
        ]
        composition = {
            "apiVersion": "apiextensions.crossplane.io/v1",
            "kind": "Composition",
            "metadata": {"name": "things"},
            "spec": {
                "compositeTypeRef": {"apiVersion": "example.org/v1", "kind": "Thing"},
                "mode": "Pipeline",
                "pipeline": pipeline,
            },
        }
        object.__setattr__(self, "made", (composition, required))
        return self

    def composition(self, one: Pass) -> dict[str, Any]:
        return self.made[0]  # type: ignore[attr-defined]

    def documents(self, part: str) -> list[dict[str, Any]]:
        return self.made[1] if part == "required" else []  # type: ignore[attr-defined]

    def composite(self, one: Pass) -> dict[str, Any]:
        return self.xr


@settings(
    max_examples=40,
    deadline=None,
    derandomize=True,
    # A render through Crossplane takes 0.2 s: shrinking a failure would take minutes.
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    xr=_composites(),
    steps=st.lists(_INPUTS, min_size=1, max_size=3),
    required=st.lists(_required(), max_size=4),
    flags=st.tuples(st.booleans(), st.booleans(), st.booleans()),
    level=st.sampled_from(["Kept", "Created", "Ready"]),
)
def test_both_engines_render_equally(
    crossplane: run.Engine, xr: Any, steps: Any, required: Any, flags: Any, level: str
) -> None:
    # What both get is read from YAML: what YAML cannot tell apart is the same to both.
    xr, *required = files.parse(emit.to_yaml([xr, *required]), "made up")
    passes = (Pass(""), Pass("next", level))
    case = MadeUp(Path("made-up"), xr, *flags, passes).given(steps, required)  # type: ignore[call-arg]
    for (one, ours), (_, theirs) in zip(
        run.render(case, engines.embedded), run.render(case, crossplane), strict=True
    ):
        assert emit.to_yaml(ours.documents) == emit.to_yaml(theirs.documents), one.name
