"""The API server applies every emitted manifest, and every pod at its claimed level."""

import copy
import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from function.api.base import parse
from function.api.tier import KVOffloadTierSpec
from function.backends.registry import BACKENDS
from function.contract.backend import Need, Part, Tier
from tests.cluster import rules, rules_hicache, rules_mooncake, rules_native, rules_nixl
from tests.cluster.documents import FIRST, changed
from tests.cluster.expect import Fleet
from tests.cluster.rig import crds
from tests.cluster.rig.fleet import namespace
from tests.cluster.rig.functions import CHECKOUT
from tests.cluster.rig.kube import Api, Manifest, Refused, load

LEVELS = ("restricted", "baseline", "privileged")
_WORKLOADS = ("DaemonSet", "Deployment", "StatefulSet", "LeaderWorkerSet")


@dataclass(frozen=True)
class Case:
    """A tier that the API admits, with what its backend composes and claims for it."""

    name: str
    parts: tuple[Part, ...]
    level: str


def _needed(need: Need) -> Manifest:
    """The tier that a tier names beside itself; one of Mooncake's, so far."""
    assert need.kind == "KVOffloadTier"
    (document,) = load(CHECKOUT / "example" / "mooncake" / "smallest.yaml")
    return changed(document, "metadata.name", need.object_name)


def _cases() -> Iterator[Case]:
    rows = [
        *rules.documents(),
        *rules_mooncake.documents(),
        *rules_hicache.documents(),
        *rules_native.documents(),
        *rules_nixl.documents(),
    ]
    for number, (path, message, good, _) in enumerate(rows):
        document = rules.tier_spec(good)
        spec, problems = parse(KVOffloadTierSpec, document, "spec")
        if spec is None or problems:
            continue
        tier = Tier("judged", "modelplane-system", f"kv-judged-{number}", spec, spec.settings)
        served_by = BACKENDS[spec.backend]
        tier = replace(tier, needed={n.name: _needed(n) for n in served_by.needs(tier)})
        if served_by.problems(tier):
            continue
        description = served_by.describe(tier)
        parts = tuple(served_by.parts(tier))
        yield Case(f"{path}: {message}", parts, description.pod_security)


CASES = {case.name: case for case in _cases()}
WITH_PODS = {
    name: case
    for name, case in CASES.items()
    if any(part.manifest["kind"] in _WORKLOADS for part in case.parts)
}
_RENDER = CHECKOUT / "tests" / "render" / "cases"
# The cases of the render engine itself hold placeholders, not manifests of ours.
_FILES = sorted(f for f in _RENDER.rglob("expected*.yaml") if "engine" not in f.parts)


def rendered() -> dict[str, tuple[Path, Manifest]]:
    """Every different manifest inside the Objects of all render cases."""
    found: dict[str, tuple[Path, Manifest]] = {}
    for file in _FILES:
        for document in load(file):
            if document.get("kind") == "Object":
                manifest = document["spec"]["forProvider"]["manifest"]
                found.setdefault(json.dumps(manifest, sort_keys=True), (file, manifest))
    return found


@pytest.fixture(scope="module")
def judge(world: Fleet) -> Api:
    """A workload cluster with a namespace for each Pod Security level, and PodMonitors."""
    api = world.rig.workload(FIRST).api
    crds.install_monitoring(api)
    for level in LEVELS:
        # As the tiers' own namespace is labelled for claims with admin access.
        enforced = {
            "pod-security.kubernetes.io/enforce": level,
            "resource.kubernetes.io/admin-access": "true",
        }
        api.apply(namespace(f"judge-{level}", enforced))
        world.rig.until(
            lambda n=f"judge-{level}": api.get("v1", "ServiceAccount", "default", n),
            "the namespace has its service account",
        )
    return api


def dry_run(api: Api, manifest: Manifest) -> Manifest:
    """Server-side apply, strictly validated, in a namespace that exists."""
    document = copy.deepcopy(manifest)
    if document["metadata"].get("namespace"):
        document["metadata"]["namespace"] = "judge-privileged"
    return api.apply(document, dry_run=True)


def templates(manifest: Manifest) -> list[Manifest]:
    """The pod templates of a workload."""
    if manifest["kind"] == "LeaderWorkerSet":
        gang = manifest["spec"]["leaderWorkerTemplate"]
        return [gang[k] for k in ("leaderTemplate", "workerTemplate") if k in gang]
    if manifest["kind"] not in _WORKLOADS:
        return []
    template = copy.deepcopy(manifest["spec"]["template"])
    # As the StatefulSet's controller adds them to its pods.
    for claim in manifest["spec"].get("volumeClaimTemplates", []):
        name = claim["metadata"]["name"]
        volume = {"name": name, "persistentVolumeClaim": {"claimName": f"{name}-0"}}
        template["spec"].setdefault("volumes", []).append(volume)
    return [template]


def as_pod(template: Manifest, level: str) -> Manifest:
    """A pod template as a Pod in the namespace of a level; only Pods are judged by it."""
    spec = copy.deepcopy(template["spec"])
    # Neither exists here, and neither is what Pod Security judges.
    spec.pop("serviceAccountName", None)
    spec.pop("priorityClassName", None)
    metadata = copy.deepcopy(template.get("metadata", {}))
    metadata |= {"name": "judged", "namespace": f"judge-{level}"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


@pytest.mark.parametrize("name", CASES)
def test_every_manifest_of_a_tier_is_applied(judge: Api, name: str):
    for part in CASES[name].parts:
        assert dry_run(judge, part.manifest)["kind"] == part.manifest["kind"]


@pytest.mark.parametrize("name", WITH_PODS)
def test_pods_of_a_tier_need_the_claimed_security_level(judge: Api, name: str):
    """Admitted at the claimed level, and at least one refused one level stricter."""
    case = WITH_PODS[name]
    pods = [template for part in case.parts for template in templates(part.manifest)]
    for template in pods:
        assert judge.create(as_pod(template, case.level), dry_run=True)["kind"] == "Pod"
    stricter = LEVELS.index(case.level) - 1
    if stricter >= 0:
        refused = [t for t in pods if _refused(judge, as_pod(t, LEVELS[stricter]))]
        assert refused != []


def _refused(judge: Api, pod: Manifest) -> bool:
    try:
        judge.create(pod, dry_run=True)
    except Refused as refused:
        return "violates PodSecurity" in str(refused)
    return False


def test_every_kind_of_level_is_covered():
    assert len(WITH_PODS) >= 20
    assert {case.level for case in WITH_PODS.values()} >= {"baseline", "privileged"}


def test_every_manifest_of_every_render_case_is_applied(judge: Api):
    problems = []
    manifests = rendered()
    for file, manifest in manifests.values():
        try:
            dry_run(judge, manifest)
        except (Refused, LookupError) as refused:
            problems.append(f"{file.relative_to(CHECKOUT)}: {manifest['kind']}: {refused}")
    assert problems == []
    assert len(manifests) >= 20


def test_every_pod_of_every_render_case_is_a_valid_pod(judge: Api):
    problems = []
    count = 0
    for file, manifest in rendered().values():
        for template in templates(manifest):
            count += 1
            try:
                judge.create(as_pod(template, "privileged"), dry_run=True)
            except Refused as refused:
                problems.append(f"{file.relative_to(CHECKOUT)}: {manifest['kind']}: {refused}")
    assert problems == []
    assert count >= 10
