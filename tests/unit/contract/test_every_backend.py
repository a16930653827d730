"""The contract of every backend, checked for each of its golden cases.

A sixth backend passes by having goldens (tests/unit/backends/goldens.py); nothing here names one
(`test_a_sixth.py` adds one).
"""

import json
import re
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from function import names
from function.api.backends import SPECS, field_name
from function.api.engines import ENGINES
from function.backends.registry import BACKENDS
from function.contract import gate, pairings
from function.contract.backend import AGENTS, CONTROL_PLANE, SUPPORT, Need, Tier
from function.contract.engine import Engine
from function.contract.stock_images.declared import parse
from function.contract.versions import known_versions
from function.engines.vllm import connectors
from function.problems import Refused
from function.reasons import Reason
from kv_offload.docs.backend_rows import accelerator_rows, gate_rows, model_rows
from kv_offload.docs.matrix import TIERS
from kv_offload.docs.variants import kinds
from kv_offload.render import files
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
def test_registry_holds_the_backend_by_name(of: goldens.Goldens) -> None:
    backend = of.backend
    assert BACKENDS[backend.name] is backend
    assert backend.field == field_name(backend.name)
    assert backend.field in SPECS[backend.name].__module__


@each_backend
def test_table_rows_are_documented_and_used(of: goldens.Goldens) -> None:
    """Rows that no page shows, nobody can check; rows that no question holds decide nothing."""
    questions = [of.backend.gate(of.of(c), e) for c in of.cases for e in of.engines.values()]
    rows = of.backend.rows
    assert rows.gate and {*rows.gate} <= {*gate_rows()}
    assert {q.connector for q in questions} <= {row.connector for row in gate_rows()}
    models, accelerators = {*rows.models}, {*rows.accelerators}
    assert models and models <= {*model_rows()} & {r for q in questions for r in q.rows.models}
    asked = {r for q in questions for r in q.rows.accelerators}
    assert accelerators and accelerators <= {*accelerator_rows()} & asked
    tiers = kinds(of.backend)
    assert tiers and {kind.spec["backend"] for kind in tiers} == {of.backend.name}
    assert {kind.says for kind in tiers} <= set(TIERS)


@each_backend
def test_connectors_are_known_to_combine(of: goldens.Goldens) -> None:
    """A connector that is not known to is refused beside a user's own; the tier's as well."""
    for name in of.backend.allows.connectors:
        assert connectors.known()[name].kind in ("cache", "transfer")


@each
def test_answers_are_deterministic_and_not_shared(case: Case) -> None:
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
def test_parts_carry_the_names_and_labels_of_the_tier(case: Case) -> None:
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
        namespace = part.namespace_override or tier.remote_namespace
        assert metadata.get("namespace", namespace) == namespace
        if part.namespace_override:
            words = json.dumps(part.manifest)
            assert not any(f'"{word}"' in words for word in ("hostPath", "hostNetwork", "hostIPC"))
        assert tier.labels.items() <= metadata["labels"].items()


# What a capability is for stands in docs/security.md, with the ports.
CAPABILITIES = {"IPC_LOCK", "CHOWN"}
LISTENS = [
    line.split("|")[1]
    for line in (Path(__file__).parents[3] / "docs/security.md").read_text().splitlines()
    if re.match(r"\| \d", line)
]


@each
def test_pods_match_the_security_page(case: Case) -> None:
    manifests = [part.manifest for part in case.of.backend.parts(case.tier)]
    for manifest in manifests:
        if manifest["kind"] not in ("DaemonSet", "Deployment", "StatefulSet"):
            continue
        pod = manifest["spec"]["template"]["spec"]
        assert pod["automountServiceAccountToken"] is False
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        for container in (*pod["containers"], *pod.get("initContainers", ())):
            security = container["securityContext"]
            assert security["readOnlyRootFilesystem"] is True
            assert security["allowPrivilegeEscalation"] is False
            assert security["capabilities"]["drop"] == ["ALL"]
            assert {*security["capabilities"].get("add", ())} <= CAPABILITIES


@each
def test_network_policy_ports_are_documented(case: Case) -> None:
    manifests = [part.manifest for part in case.of.backend.parts(case.tier)]
    policies = [m["spec"] for m in manifests if m["kind"] == "NetworkPolicy"]
    rules = [rule for spec in policies for rule in spec.get("ingress", ())]
    assert all(rule["from"] and rule["ports"] for rule in rules), "open to everybody"
    chosen = case.tier.settings.model_dump_json()  # a tier's own say
    for port in (port for rule in rules for port in rule["ports"]):
        words = f"{port['port']} to {port['endPort']}" if "endPort" in port else str(port["port"])
        assert any(words in cell for cell in LISTENS) or words in chosen, words


@each
def test_messages_and_status_are_displayable(case: Case) -> None:
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
def test_every_engine_version_is_wired_or_refused_with_a_reason(case: Case, engine: str) -> None:
    backend, tier = case.of.backend, case.tier
    for version in (None, "0.1.0", "99.0.0", "main", *known_versions(engine)):
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


@each
def test_declaration_named_in_a_refusal_is_accepted(case: Case) -> None:
    """Of an image that nobody knows: its owner copies the example out of the message."""
    for engine in case.of.engines.values():
        unknown = replace(engine, packages={}, image="me/engine:mine")
        for pairing in case.of.backend.gate(case.tier, engine).pairings:
            with pytest.raises(Refused) as refused:
                pairings.check(pairing, unknown, ())
            copied = refused.value.message.partition('e.g. "')[2].partition('"')[0]
            declared = replace(unknown, packages=parse(copied, "annotation"))
            pairings.check(pairing, declared, ())


UNSERVED = {
    "an encoder's states": Engine("", model="openai/whisper-large-v3"),
    "a pipeline": Engine("", model="black-forest-labs/FLUX.2-klein-4B"),
}


@each
@pytest.mark.parametrize("what", UNSERVED)
def test_models_without_prefix_cache_are_refused(case: Case, what: str) -> None:
    for engine in case.of.engines.values():
        one = replace(UNSERVED[what], name=engine.name, version=engine.version)
        with pytest.raises(Refused, match="Remove the request for a tier"):
            gate.check(case.of.backend.gate(case.tier, one))


@each
def test_identities_over_one_store_never_share_blocks(case: Case) -> None:
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
def test_credentials_are_secret_references(case: Case) -> None:
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


def _needed(case: Case, need: Need) -> dict[str, Any]:
    """What the tier needs, ready, on the cluster of all."""
    found = case.tier.needed[need.name]
    metadata = {**found["metadata"], "name": need.object_name, "namespace": need.namespace}
    spec = {**found["spec"], "inferenceClusterRef": {"name": "gpu"}}
    return {**found, "metadata": metadata, "spec": spec, "status": {"conditions": [READY]}}


def _held(case: Case, engine: Engine) -> str:
    """An image's packages, as people declare them, that are what the tier wants of them."""
    wanted = case.of.backend.gate(case.tier, engine).pairings
    return ",".join(f"{pairing.package}={pairing.example}" for pairing in wanted)


def _engine(case: Case) -> dict[str, Any]:
    engine = next(iter(case.of.engines.values()))
    name = engine.name
    annotations = {
        "modelplane.ai/kv-offload-tier": "chat",
        "modelplane.ai/kv-offload-engine": name,
        IDENTITY: "declared",
    }
    if held := _held(case, engine):
        annotations[PACKAGES] = held
    # Newer engines with LMCache in their process are refused (KVO-2026-001).
    image = "vllm/vllm-openai:v0.25.1" if case.name == "in-process" else IMAGES[name]
    document = d.engine(annotations, args=[*STARTS[name], d.MODEL], image=image)
    pod = d.wired_pod(document)["spec"]  # as plain as engines are
    del pod["volumes"], pod["containers"][0]["volumeMounts"]
    return document


def _consume(case: Case, spec: dict[str, Any] | None, observed: dict[str, Any]) -> Outcome:
    tiers = [_ready(spec)] if spec is not None else []
    required = d.requirements(*tiers)
    for need in case.of.backend.needs(case.tier):
        key = f"needs/{REF}/{need.name}"
        required |= {key: [_needed(case, need)], f"{key}/children": []}
    return call(d.replica(), desired={KEY: _engine(case)}, observed=observed, required=required)


@each
def test_wired_engine_stays_wired(case: Case) -> None:
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
