"""Packages: ours install, and our step in a copy of a packaged Composition persists.

Core's own package manager installs everything, from a registry on the loopback address. A control
plane of its own: where the documents of the other groups are applied by hand, nothing is restored.
"""

import re
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.documents import (
    API,
    FIRST,
    changed,
    replica_group,
    requesting,
    tier,
)
from tests.cluster.expect import Fleet, engine, flag, identities
from tests.cluster.platform import COMPOSITION, COPY, Platform
from tests.cluster.rig import fleet, functions, packages
from tests.cluster.rig.functions import CHECKOUT
from tests.cluster.rig.kube import condition, is_true, load
from tests.cluster.rig.registry import registry
from tests.cluster.rig.up import Rig
from tests.tools.find import require

# The shared control plane is left alone meanwhile, which is what test_90_steady.py looks at.
pytestmark = pytest.mark.usefixtures("steady")

STANDIN = Path(__file__).parent / "standin"
_DEFINITION_API = "apiextensions.crossplane.io/v2"

CHAT = tier("packaged")
FIRST_ONE = requesting("first", "packaged")
LATER = requesting("later", "packaged")
GROUP = replica_group("grouped", "packaged", 2)


@pytest.fixture(scope="module")
def platform(bare_run: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Platform]:
    folder = tmp_path_factory.mktemp("packages")
    with (
        Rig(bare_run, (FIRST,), with_lws=False, registers=False) as rig,
        registry() as served,
    ):
        rig.launch_function("stand-in", [sys.executable, str(STANDIN / "function.py")])
        found = Platform(Fleet(rig), served, folder)
        yield found


@pytest.fixture(scope="module")
def ours(platform: Platform) -> None:
    """Our packages, as `make packages` builds them, and a fleet."""
    platform.install_ours("kind", "tier", "standalone")
    for kind in ("KVOffloadTier", "InferenceCluster", "ModelDeployment"):
        platform.until_served(kind)
    fleet.declare(platform.world.rig, packages=False)


@pytest.fixture(scope="module")
def theirs(platform: Platform, ours: None) -> None:
    """The foreign package, a tier, and a replica that nothing wires."""
    replica, group = (load(STANDIN / f"{n}.yaml") for n in ("modelreplica", "replicagroup"))
    composition = replica[1]
    composition["spec"]["pipeline"] = composition["spec"]["pipeline"][:1]
    platform.definitions = [*replica, *group]
    platform.upgrade_platform("v1.0.0")
    platform.until_served("ModelReplica")
    platform.world.api.apply(CHAT)
    platform.world.until_ready(CHAT, limit=60)
    platform.world.api.apply(FIRST_ONE)
    platform.world.until_ready(FIRST_ONE, limit=60)


def wired(world: Fleet, name: str) -> bool:
    """Whether a replica's engine carries a wiring, on the workload cluster."""
    found = world.rig.workload(FIRST).api.get("apps/v1", "Deployment", f"{name}-main", "default")
    return bool(found and flag(engine(found), "--kv-transfer-config"))


def until_wired(world: Fleet, *names: str) -> None:
    for name in names:
        world.rig.until(lambda n=name: wired(world, n), f"{name} is wired", 60)


def members(world: Fleet) -> list[str]:
    return [r["metadata"]["name"] for r in world.composed(GROUP, API, "ModelReplica")]


def test_our_packages_install(platform: Platform, ours: None):
    for name in ("kvoffloadtiers", "inferenceclusters", "modeldeployments"):
        address = _DEFINITION_API, "CompositeResourceDefinition", f"{name}.modelplane.ai"
        platform.world.rig.until(
            lambda a=address: is_true(platform.world.api.get(*a), "Established"),
            f"{name} is established",
        )
    assert is_true(platform.world.api.get(packages.API, "Function", functions.OURS), "Healthy")


def test_step_is_added_with_the_readme_commands(platform: Platform, theirs: None):
    world = platform.world
    assert not wired(world, "first")
    platform.add_step(COMPOSITION)
    # What exists comes to the copy when it is written the next time.
    world.rig.until(lambda: COPY in _used(world, "first"), "the policy is in force", every=1)
    world.api.apply(LATER)
    world.api.apply(GROUP)
    until_wired(world, "first", "later")
    world.rig.until(lambda: len(members(world)) == 2, "the parent has composed two")
    until_wired(world, *members(world))
    assert "4 composites" in platform.doctor()


def test_status_and_doctor_ask_the_control_plane(platform: Platform, theirs: None):
    said = platform.tool("status").splitlines()
    tier = CHAT["metadata"]
    (title,) = (line for line in said if f"{tier['namespace']}/{tier['name']}: " in line)
    assert title.startswith("✔") and f" on {FIRST}, agents 3/3" in title
    assert f"✔ ModelReplica team-a/later: Wired to {tier['namespace']}/{tier['name']}" in said
    assert "composites run with our step" in platform.tool("doctor")


def _used(world: Fleet, name: str) -> str:
    """The Composition of a replica, after a write of no meaning."""
    document = requesting(name, "packaged")
    label = {"metadata": {"labels": {"example.org/touched": "yes"}}}
    found = world.api.patch(document, label)
    world.api.patch(document, {"metadata": {"labels": {"example.org/touched": None}}})
    return found["spec"]["crossplane"]["compositionRef"]["name"]


def all_stay_wired(platform: Platform, newcomer: str) -> None:
    """What was wired stays so, in the same pods, and what comes is wired too, and stays."""
    world = platform.world
    before = identities(world.pods(FIRST, "default"))
    world.api.apply(requesting(newcomer, "packaged"))
    until_wired(world, newcomer)
    replicas = [r["metadata"]["name"] for r in world.api.list(API, "ModelReplica")]
    for name in replicas:
        assert wired(world, name)
    assert before.items() <= identities(world.pods(FIRST, "default")).items()
    assert f"{len(replicas)} composites" in platform.doctor()


def test_step_survives_a_restart_of_core(platform: Platform, theirs: None):
    platform.restart_core()
    all_stay_wired(platform, "after-a-restart")


def test_step_survives_an_upgrade_of_the_other_package(platform: Platform, theirs: None):
    platform.upgrade_platform("v1.1.0")
    all_stay_wired(platform, "after-theirs")


def test_step_survives_an_upgrade_of_our_package(platform: Platform, theirs: None):
    meta, *rest = load(CHECKOUT / "dist" / "packages" / "function" / "crossplane.yaml")
    newer = changed(meta, "metadata.annotations", {"meta.crossplane.io/description": "newer"})
    file = packages.build(platform.folder, functions.OURS, rest, "v0.2.0", newer)
    platform.install("Function", functions.OURS, "v0.2.0", file)
    all_stay_wired(platform, "after-ours")


def test_doctor_reports_a_changed_composition(platform: Platform, theirs: None):
    spec = platform.definitions[1]["spec"]
    spec["pipeline"][0]["step"] = "compose-otherwise"
    platform.upgrade_platform("v2.0.0")
    stale = f"Composition {COPY}: is a copy of an older Composition {COMPOSITION}."
    assert stale in platform.doctor(code=1)
    platform.add_step(COMPOSITION)
    all_stay_wired(platform, "after-a-change")


def test_doctor_reports_a_stale_condition(platform: Platform, theirs: None):
    """The policy is taken away, and a replica goes back to the packaged Composition."""
    world = platform.world
    platform.kubectl("delete", "mutatingadmissionpolicybinding", COPY)
    reference = {"spec": {"crossplane": {"compositionRef": {"name": COMPOSITION}}}}

    def back() -> bool:
        world.api.patch(LATER, reference)
        return not wired(world, "later")

    world.rig.until(back, "its engine is unwired", 60, every=1)
    assert world.condition(LATER, "KVOffloadReady") == ("True", "Wired")
    said = platform.doctor(code=1)
    assert "ModelReplica team-a/later: KVOffloadReady=True (Wired) is stale" in said
    assert "and no default" in said


def test_step_in_a_rebuilt_package_persists(platform: Platform, theirs: None):
    """In place of a copy, for clusters without admission policies."""
    world = platform.world
    file = packages.build(platform.folder, "platform", platform.definitions, "v3.0.0")
    extracted, root = platform.folder / "platform.gz", platform.folder / "root"
    crossplane = str(require("crossplane"))
    subprocess.run(
        [crossplane, "xpkg", "extract", "--from-xpkg", str(file), "-o", str(extracted)], check=True
    )
    platform.tool("add-step", str(extracted), "--package", str(root))
    rebuilt = platform.folder / "rebuilt.xpkg"
    build = [crossplane, "xpkg", "build", "--package-root", str(root)]
    subprocess.run([*build, "--package-file", str(rebuilt)], check=True, capture_output=True)
    platform.install("Configuration", "platform", "v3.0.0", rebuilt)
    platform.kubectl("delete", "composition", COPY)
    for name in [r["metadata"]["name"] for r in world.api.list(API, "ModelReplica")]:
        reference = {"spec": {"crossplane": {"compositionRef": {"name": COMPOSITION}}}}
        world.api.patch(changed(LATER, "metadata.name", name), reference)
    until_wired(world, "later")
    platform.restart_core()
    all_stay_wired(platform, "after-a-rebuild")


def test_kind_is_handed_over_to_another_package(platform: Platform, theirs: None):
    """docs/handover.md, as it stands there: their XRD lacks two fields of ours."""
    world = platform.world
    definition = load(CHECKOUT / "xrd" / "kvoffloadtier.yaml")[0]
    before = world.api.again(definition)
    assert before
    schema = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]
    del schema["spec"]["properties"]["startupTimeoutSeconds"]
    del schema["status"]["properties"]["pinned"]
    file = packages.build(platform.folder, "modelplane", [definition], "v1.0.0")
    image = platform.registry.push("platform/modelplane", "v1.0.0", file)
    package = packages.package("Configuration", "modelplane", image)
    world.api.apply(package)

    def refused() -> bool:
        found = world.api.again(package) or {}
        return condition(found, "Healthy").get("status") == "False"

    world.rig.until(refused, "two packages cannot own one XRD", 60)
    ours = packages.package("Configuration", "kv-offload-kind", "")
    labels = "pkg.crossplane.io/package=kv-offload-kind"
    (revision,) = world.api.list(packages.API, "ConfigurationRevision", labels=labels)
    page = (CHECKOUT / "docs" / "handover.md").read_text()
    (commands,) = re.findall(r"```\n(.*?)```", page, re.DOTALL)
    for line in commands.splitlines():
        line = line.replace("PACKAGE", "kv-offload-kind")
        line = line.replace("REVISION", revision["metadata"]["name"])
        if words := shlex.split(line):
            platform.kubectl(*words[1:])
    world.rig.until(
        lambda: is_true(world.api.again(package), "Healthy"), "their package owns the XRD", 120
    )
    world.api.delete(ours)
    world.rig.until(lambda: not world.api.again(revision), "our package is gone", 60)
    now = world.api.again(definition)
    assert now and now["metadata"]["uid"] == before["metadata"]["uid"]

    def is_seen() -> bool:
        """Core may still have the schema from before when it calls for the first time."""
        label = {"metadata": {"labels": {"example.org/touched": str(time.time())}}}
        world.api.patch(CHAT, label)
        return "status.pinned: left out" in world.message(CHAT, "Accepted")

    world.rig.until(is_seen, "the tier says it", 90, every=2, explain=lambda: world.explain(CHAT))
    world.until_ready(CHAT)
    all_stay_wired(platform, "after-the-handover")
