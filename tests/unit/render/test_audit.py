"""kv-offload audit: which known faults engines fall under, of documents as written and as wired."""

from pathlib import Path
from typing import Any

import pytest

from function.api.input import Input
from function.contract.advisories import Treatment
from kv_offload.render import files
from kv_offload.render.audit import Audited, audit, lines
from kv_offload.render.wiring import Wirer

EXAMPLES = Path(__file__).parents[3] / "example"


def tier(path: str) -> dict[str, Any]:
    return files.load_one(EXAMPLES / path, "tier")


def deployment(named: str, image: str = "vllm/vllm-openai:v0.33.0") -> dict[str, Any]:
    container = {"name": "engine", "image": image, "args": ["--model", "Qwen/Qwen3-8B"]}
    annotations = {"modelplane.ai/kv-offload-tier": named}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "qwen", "namespace": "default"},
        "spec": {
            "template": {
                "metadata": {"annotations": annotations},
                "spec": {"containers": [container]},
            }
        },
    }


def as_object(manifest: dict[str, Any], annotations: dict[str, str]) -> dict[str, Any]:
    return {
        "apiVersion": "kubernetes.m.crossplane.io/v1alpha1",
        "kind": "Object",
        "metadata": {"name": "x", "namespace": "team-a", "annotations": annotations},
        "spec": {"forProvider": {"manifest": manifest}},
    }


def ids(each: Audited, action: Treatment) -> list[str]:
    return [advisory.id for advisory in each.found if advisory.action is action]


@pytest.mark.parametrize("wrapped", [False, True])
def test_an_engine_that_the_gate_refuses_today_is_found(wrapped: bool) -> None:
    workload = deployment("in-process")
    if wrapped:
        workload = as_object(workload, {})
    (found,) = audit([tier("lmcache/in-process.yaml"), workload], Input())
    assert (found.workload, found.tier) == (
        "Deployment default/qwen",
        "modelplane-system/in-process",
    )
    assert found.refused
    assert ids(found, Treatment.REFUSE) == ["KVO-2026-001"]
    assert ids(found, Treatment.CAUTION) == ["KVO-2026-004"]
    assert "  KVO-2026-001 (wrong output, refused today): " in "\n".join(lines(found))


def test_a_record_names_the_tier_where_no_annotation_does() -> None:
    """A field of the composite, which is not among the documents, named it."""
    workload = deployment("in-process")
    del workload["spec"]["template"]["metadata"]
    text = (
        '{"backend":"LMCache","policy":"Required","state":"Unwired","template":"0",'
        '"tier":"modelplane-system/in-process","version":1}'
    )
    wrapped = as_object(workload, {"modelplane.ai/kv-offload-record": text})
    (found,) = audit([tier("lmcache/in-process.yaml"), wrapped], Input())
    assert ids(found, Treatment.REFUSE) == ["KVO-2026-001"]


def test_settings_and_other_rules_are_no_finding() -> None:
    (found,) = audit([tier("native/shared.yaml"), deployment("native")], Input())
    assert not found.refused
    assert {advisory.action for advisory in found.found} == {Treatment.NONE}


@pytest.mark.parametrize(
    ("documents", "problem"),
    [
        ([deployment("other")], "KVOffloadTier modelplane-system/other is not among the documents"),
        (
            [tier("native/shared.yaml"), deployment("auto")],
            "modelplane-system/auto has chosen no tier yet: audit what runs, or what wire prints",
        ),
        (
            [tier("hicache/files.yaml"), deployment("turns-files")],
            "HiCache works with SGLang only; this engine is vLLM. Use a tier of backend Native, "
            "Mooncake or LMCache.",
        ),
    ],
)
def test_what_cannot_be_judged_has_its_reason(
    documents: list[dict[str, Any]], problem: str
) -> None:
    (found,) = audit(documents, Input())
    assert found.problem == problem
    assert list(lines(found))[1] == f"  not judged: {problem}"


def test_a_childs_label_names_its_fleet() -> None:
    child = tier("lmcache/in-process.yaml")
    child["metadata"] |= {
        "name": "in-process-a1b2",
        "labels": {"modelplane.ai/kv-offload-fleet": "in-process"},
    }
    (found,) = audit([child, deployment("in-process")], Input())
    assert ids(found, Treatment.REFUSE) == ["KVO-2026-001"]


@pytest.mark.parametrize(("cluster", "refused"), [("a", []), ("b", ["KVO-2026-001"])])
def test_an_engine_is_judged_by_the_child_on_its_cluster(cluster: str, refused: list[str]) -> None:
    """Where an edit goes in waves, children of one fleet differ."""
    fleet, children = tier("fleet/tier.yaml"), []
    for name, path in (("a", "lmcache/smallest.yaml"), ("b", "lmcache/in-process.yaml")):
        child = tier(path)
        child["metadata"] |= {
            "name": f"chat-{name}",
            "labels": {"modelplane.ai/kv-offload-fleet": "chat"},
        }
        children.append({**child, "status": {"providerConfigRef": {"name": name}}})
    workload = as_object(deployment("chat"), {})
    workload["spec"]["providerConfigRef"] = {"kind": "ClusterProviderConfig", "name": cluster}
    (found,) = audit([fleet, *children, workload], Input())
    assert ids(found, Treatment.REFUSE) == refused


def test_an_engine_that_names_auto_is_judged_by_the_tier_of_its_record() -> None:
    chosen = tier("native/smallest.yaml")
    chosen["metadata"]["labels"] = {"modelplane.ai/kv-offload-auto": "true"}
    wirer = Wirer([chosen], Input(), "team-a")
    *_, workload = wirer.wire_all([deployment("auto") | {"metadata": {"name": "a"}}]).documents
    (found,) = audit([chosen, workload], Input())
    assert (found.tier, found.problem) == ("modelplane-system/native", "")


def test_workloads_without_a_request_are_passed_over() -> None:
    workload = deployment("x")
    del workload["spec"]["template"]["metadata"]
    assert audit([workload, tier("native/shared.yaml")], Input()) == []
