"""What every backend keeps of its contract, in every case that its goldens show.

A sixth backend passes by having goldens (tests/unit/backends/goldens.py); nothing here names one.
"""

import json
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any

import pytest

from function import names
from function.api.backends import SPECS, field_name
from function.backends.registry import BACKENDS, gate_rows
from function.contract import gate
from function.contract.backend import AGENTS, CONTROL_PLANE, SUPPORT, Tier
from function.contract.engine import ENGINES, Engine
from function.contract.image import parse_version
from function.contract.versions import KNOWN
from function.problems import Refused
from function.reasons import Reason
from function.render import files
from tests.render.case import CASES
from tests.unit.backends import goldens
from tests.unit.composers import documents as d
from tests.unit.composers.calls import READY, Outcome, call, observe


@dataclass(frozen=True)
class Case:
    """One whole tier of one backend."""

    of: goldens.Goldens
    name: str

    @property
    def tier(self) -> Tier:
        return self.of.of(self.name)


EVERY = [Case(of, name) for of in goldens.every() for name in of.cases]
each = pytest.mark.parametrize("case", EVERY, ids=lambda c: f"{c.of.backend.name}-{c.name}")
each_backend = pytest.mark.parametrize("of", goldens.every(), ids=lambda of: of.backend.name)
each_engine = pytest.mark.parametrize("engine", ENGINES)


@each_backend
def test_it_is_found_by_its_name(of: goldens.Goldens) -> None:
    backend = of.backend
    assert BACKENDS[backend.name] is backend
    assert backend.field == field_name(backend.name)
    assert backend.field in SPECS[backend.name].__module__
    assert any(row.engine in ENGINES for row in gate_rows())


@each
def test_the_same_tier_means_the_same(case: Case) -> None:
    """Whatever a caller does with an answer, the next one is whole."""
    backend, tier = case.of.backend, case.tier
    first = deepcopy(backend.parts(tier))
    for part in backend.parts(tier):
        part.manifest.clear()
    assert backend.parts(case.tier) == first
    assert backend.describe(tier) == backend.describe(case.tier)
    for engine in case.of.engines.values():
        before = deepcopy(engine)
        assert backend.inject(tier, engine) == backend.inject(case.tier, engine)
        assert engine == before


@each
def test_what_it_composes_is_its_own(case: Case) -> None:
    """Keys are kind and purpose; names, labels and namespace are the tier's. What stands beside a
    volume in the engines' namespace says so, and sees nothing of a node."""
    tier, parts = case.tier, case.of.backend.parts(case.tier)
    assert len({part.key for part in parts}) == len(parts)
    for part in parts:
        metadata = part.manifest["metadata"]
        assert part.key.startswith(part.manifest["kind"].lower()), part.key
        assert part.role in (SUPPORT, CONTROL_PLANE, AGENTS)
        if part.manifest["kind"] == "Namespace":
            assert metadata["name"] == tier.remote_namespace
            continue
        assert metadata["name"].startswith(tier.remote_name), metadata["name"]
        namespace = part.beside or tier.remote_namespace
        assert metadata.get("namespace", namespace) == namespace
        if part.beside:
            words = json.dumps(part.manifest)
            assert not any(f'"{word}"' in words for word in ("hostPath", "hostNetwork", "hostIPC"))
        assert tier.labels.items() <= metadata["labels"].items()


@each
def test_what_it_says_can_be_shown(case: Case) -> None:
    backend, tier = case.of.backend, case.tier
    said = backend.describe(tier)
    assert said.pod_security in ("privileged", "baseline", "restricted")
    assert all(said.endpoints.values())
    assert all(text.strip() and text[-1] in ".!" for text in said.warnings), said.warnings
    assert all(row.path.startswith("spec") and row.why for row in backend.pinned(tier))
    assert all(need.path.startswith(f"spec.{backend.field}") for need in backend.needs(tier))
    assert len({need.name for need in backend.needs(tier)}) == len(backend.needs(tier))


@each
@each_engine
def test_every_engine_of_every_version_is_wired_or_told_why(case: Case, engine: str) -> None:
    backend, tier = case.of.backend, case.tier
    for version in (None, "0.1.0", "99.0.0", "main", *KNOWN[engine]):
        for identity in ("", "0123456789ab"):
            one = Engine(engine, version=version, identity=identity, model="m")
            try:
                features = gate.check(backend.gate(tier, one)).features
                injection = backend.inject(tier, Engine(**{**one.__dict__, "features": features}))
            except Refused as refused:
                assert isinstance(refused.reason, Reason)
                assert len(refused.message) > 20, refused.message
                continue
            assert backend.allows.problem(injection) == ""
            assert injection.labels.get(names.LABEL_WIRED), "no NetworkPolicy selects the pod"


UNSERVED = {
    "an encoder's states": Engine("", model="openai/whisper-large-v3"),
    "a pipeline": Engine("", model="black-forest-labs/FLUX.2-klein-4B"),
}


@each
@pytest.mark.parametrize("what", UNSERVED)
def test_what_has_no_prefix_is_never_wired(case: Case, what: str) -> None:
    for engine in case.of.engines.values():
        one = replace(UNSERVED[what], name=engine.name, version=engine.version)
        with pytest.raises(Refused, match="Remove the request for a tier"):
            gate.check(case.of.backend.gate(case.tier, one))


@each
def test_two_identities_over_one_store_never_meet(case: Case) -> None:
    """Where blocks outlive pods: by this tier, or by another one over the same store, an engine of
    another identity is wired in another way, or not at all."""
    backend, tier = case.of.backend, case.tier
    if not backend.describe(tier).outlives_pods:
        return
    for engine in case.of.engines.values():
        wired = []
        for identity in ("a" * 12, "b" * 12):
            with suppress(Refused):
                wired.append(backend.inject(tier, replace(engine, identity=identity)).to_json())
        assert len(wired) < 2 or wired[0] != wired[1]


@each
def test_no_credential_is_written_out(case: Case) -> None:
    """A credential reaches a pod by reference to a Secret."""
    for engine in case.of.engines.values():
        injection = case.of.backend.inject(case.tier, engine)
        for variable in (*injection.env, *injection.env_if_absent):
            if any(word in variable["name"] for word in ("SECRET", "PASSWORD", "TOKEN")):
                assert "value" not in variable, variable["name"]


REF = "modelplane-system/chat"
KEY = "model-serving-main"
IMAGES = {"vLLM": "vllm/vllm-openai:v0.33.0", "SGLang": "lmcache/sglang:v0.5.6"}
STARTS = {
    "vLLM": ["--model"],
    "SGLang": ["python3", "-m", "sglang.launch_server", "--model-path"],
}
IDENTITY = "modelplane.ai/kv-offload-cache-identity"
PACKAGES = "modelplane.ai/kv-offload-packages"


def _ready(spec: dict[str, Any]) -> dict[str, Any]:
    body = {**spec, "inferenceClusterRef": {"name": "gpu"}}
    found = d.ready_tier()
    body["allowedNamespaces"] = {"from": "Names", "names": ["team-a"]}
    return {**found, "spec": body}


def _spec(case: Case) -> dict[str, Any]:
    path = CASES / "tier" / case.of.folder.name / case.name / "xr.yaml"
    return dict(files.load_one(path, "tier")["spec"])


def _pool(name: str) -> dict[str, Any]:
    spec = {
        "inferenceClusterRef": {"name": "gpu"},
        "backend": "Mooncake",
        "mooncake": {"store": {"sizeGiB": 8}},
    }
    return {
        "apiVersion": "modelplane.ai/v1alpha1",
        "kind": "KVOffloadTier",
        "metadata": {"name": name, "namespace": "modelplane-system"},
        "spec": spec,
        "status": {"conditions": [READY]},
    }


def _engine(case: Case) -> dict[str, Any]:
    name = next(iter(case.of.engines.values())).name
    annotations = {
        "modelplane.ai/kv-offload-tier": "chat",
        "modelplane.ai/kv-offload-engine": name,
        IDENTITY: "declared",
    }
    runs = parse_version((_spec(case).get("image") or {}).get("tag", ""))
    if case.of.backend.name == "LMCache" and runs:  # the image holds what the tier runs
        annotations[PACKAGES] = f"lmcache={runs}"
    document = d.engine(annotations, args=[*STARTS[name], d.MODEL], image=IMAGES[name])
    pod = d.wired_pod(document)["spec"]  # as plain as engines are
    del pod["volumes"], pod["containers"][0]["volumeMounts"]
    return document


def _consume(case: Case, spec: dict[str, Any] | None, observed: dict[str, Any]) -> Outcome:
    tiers = [_ready(spec)] if spec is not None else []
    required = d.requirements(*tiers)
    for need in case.of.backend.needs(case.tier):
        pools = [_pool(need.object_name)]
        required |= {f"needs/{REF}/{need.name}": pools, f"needs/{REF}/{need.name}/children": []}
    return call(d.replica(), desired={KEY: _engine(case)}, observed=observed, required=required)


@each
def test_wired_stays_wired(case: Case) -> None:
    """The whole function: wiring twice changes nothing, and a lost tier unwires nothing."""
    spec = _spec(case)
    first = _consume(case, spec, {})
    if first.conditions["KVOffloadReady"][0] != "True":
        # A tier that takes one identity alone: whole, or not at all.
        assert first.conditions["KVOffloadReady"] == ("False", Reason.CACHE_IDENTITY_CONFLICT)
        assert (first.desired, first.composite_ready) == ({}, "FALSE")
        return
    seen = observe(first)
    assert _wiring(_consume(case, spec, seen)) == _wiring(first)
    lost = _consume(case, None, seen)
    assert _wiring(lost) == _wiring(first)
    assert lost.conditions["KVOffloadReady"] == ("False", "TierNotFound")


def _wiring(outcome: Outcome) -> str:
    """As text, for order counts. A Usage goes by a name that core gives."""
    wiring = {key: value for key, value in outcome.desired.items() if key[:6] != "usage-"}
    assert KEY in wiring
    return json.dumps(wiring)
