"""What `make release` makes, installed by Crossplane's own package manager and taken off again.

The function that answers is the process of the package's image (kubelet.py). Only its Deployment is
not made: core runs with the runtime External.
"""

import re
import time
from collections.abc import Iterator

import pytest
import yaml

from tests.cluster.documents import FIRST, OBJECT, deployment, tier
from tests.cluster.expect import Fleet, identities
from tests.cluster.rig import crossplane, fleet, packages
from tests.cluster.rig.functions import CHECKOUT
from tests.cluster.rig.kube import Manifest, is_true
from tests.cluster.rig.up import Rig
from tests.release.conftest import Released
from tests.release.control import PACKAGES, Control
from tests.release.kubelet import Kubelet
from tools.release import image
from tools.release.image import tool

CHAT = tier("released")
FIRST_ENGINE, SECOND_ENGINE, THIRD_ENGINE = (
    deployment(name, "released") for name in ("installed", "upgraded", "rolled-back")
)


@pytest.fixture(scope="module")
def control(released: Released, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Control]:
    unpacked = tmp_path_factory.mktemp("unpacked")
    run = CHECKOUT / ".run" / "release"
    flags = crossplane.FLEET_FLAGS
    with Rig(run, (FIRST,), core_flags=flags, with_lws=False, registers=False) as rig:
        kubelet = Kubelet(rig, unpacked, "team-function-kv-offload")
        try:
            yield Control(Fleet(rig), kubelet, released.made)
        finally:
            kubelet.stop()


@pytest.fixture(scope="module")
def installed(control: Control) -> Control:
    control.install("v0.1.0")
    fleet.declare(control.world.rig, packages=False)
    return control


def test_two_files_bring_everything_to_healthy(installed: Control):
    """Nothing is installed twice, in whatever order the file and the dependency come."""
    assert {kind: len(installed.installed(kind)) for kind in PACKAGES} == PACKAGES
    assert installed.version() == "0.1.0"
    budget = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget"}
    name = {"name": installed.kubelet.name, "namespace": crossplane.NAMESPACE}
    assert installed.world.api.again({**budget, "metadata": name})


def test_tier_and_workload_work_with_the_packages_own_process(installed: Control):
    world, before = installed.world, installed.calls()
    for document in (CHAT, FIRST_ENGINE):
        world.api.apply(document)
        world.until_ready(document, limit=60)
    assert world.condition(FIRST_ENGINE, "KVOffloadReady") == ("True", "Wired")
    assert installed.calls() > before


def test_upgrade_rolls_no_pod(installed: Control):
    _move(installed, "v0.2.0", SECOND_ENGINE)
    (inactive,) = installed.kubelet.revisions("Inactive")
    assert inactive["spec"]["image"] in installed.packages("v0.1.0")


@pytest.fixture(scope="module")
def moved_tags(released: Released) -> Iterator[None]:
    """The first version's tags name the third's packages, whose function crashes."""

    def point(version: str) -> None:
        for line in (released.made[version] / "DIGESTS").read_text().splitlines():
            digest, reference = line.split()
            tool("crane", "tag", f"{reference.rpartition(':')[0]}@{digest}", "v0.1.0")

    point("v0.3.0")
    yield
    point("v0.1.0")


def test_rollback_rolls_no_pod(installed: Control, moved_tags: None):
    """The first version works on with what the second wrote.

    Its manifests name digests: that somebody moved its tags to other packages changes nothing.
    """
    _move(installed, "v0.1.0", THIRD_ENGINE)


def _move(control: Control, version: str, newcomer: Manifest) -> None:
    """Install another version; pods stay, and a new workload is wired by it."""
    world = control.world
    before = identities(world.pods(FIRST, ""))
    control.install(version)
    assert control.version() == version[1:]
    world.api.apply(newcomer)
    world.until_ready(newcomer, limit=60)
    assert world.condition(newcomer, "KVOffloadReady") == ("True", "Wired")
    for document in (CHAT, FIRST_ENGINE):
        world.touch(document)
        world.until_ready(document, limit=60)
    assert before and before.items() <= identities(world.pods(FIRST, "")).items()


def test_manual_activation_stops_the_function_until_somebody_activates(installed: Control):
    """Crossplane deactivates the old revision at once, whatever the policy; pods stay."""
    world = installed.world
    before = identities(world.pods(FIRST, ""))
    _set_policy(installed, "Manual")
    try:
        installed.kubectl("apply", *installed.files("v0.2.0"))
        (image,) = (p for p in installed.packages("v0.2.0") if "/function-" in p)
        revision = world.rig.until(lambda: _revision(installed, image), "a revision", 60)
        assert revision["spec"]["desiredState"] != "Active"  # core 2.4 leaves it empty
        world.rig.until(lambda: not installed.kubelet.revisions("Active"), "no revision runs", 60)
        installed.kubelet.tend()
        _until_calls_fail(world)
        active = ("--type=merge", '--patch={"spec":{"desiredState":"Active"}}')
        installed.kubectl("patch", "functionrevision", revision["metadata"]["name"], *active)
        installed.settle("v0.2.0")
    finally:
        _set_policy(installed, "Automatic")
    assert installed.version() == "0.2.0"
    _until_calls_succeed(world)
    assert before and before.items() <= identities(world.pods(FIRST, "")).items()


def test_version_that_crashes_leaves_pods_and_can_be_taken_back(installed: Control):
    world = installed.world
    before = identities(world.pods(FIRST, ""))
    objects = [o["metadata"]["uid"] for o in world.api.list(OBJECT, "Object")]
    installed.kubectl("apply", *installed.files("v0.3.0"))

    def crashing() -> bool:
        installed.kubelet.tend()
        function = world.api.get(packages.API, "Function", installed.kubelet.name)
        return bool(installed.kubelet.crashing) and not is_true(function, "Healthy")

    try:
        world.rig.until(crashing, "the function is Unhealthy", 120, every=1)
        assert "broken" in str(installed.kubelet.crashing)
        assert not installed.kubelet.running
        _until_calls_fail(world)
        for document in (CHAT, FIRST_ENGINE):
            assert is_true(world.get(document), "Ready")
        assert [o["metadata"]["uid"] for o in world.api.list(OBJECT, "Object")] == objects
    finally:
        installed.install("v0.1.0")
    assert installed.version() == "0.1.0"
    _until_calls_succeed(world)
    assert before and identities(world.pods(FIRST, "")) == before


def _set_policy(control: Control, policy: str) -> None:
    patch = f'--patch={{"spec":{{"revisionActivationPolicy":"{policy}"}}}}'
    control.kubectl("patch", "function.pkg", control.kubelet.name, "--type=merge", patch)


def _revision(control: Control, image: str) -> Manifest | None:
    found = control.world.api.list(packages.API, "FunctionRevision")
    return next((each for each in found if each["spec"]["image"] == image), None)


def _until_calls_fail(world: Fleet) -> None:
    failed = ("False", "ReconcileError")
    world.until_condition(FIRST_ENGINE, "Synced", failed, 90, touching=True)


def _until_calls_succeed(world: Fleet) -> None:
    for document in (CHAT, FIRST_ENGINE):
        world.until_condition(document, "Synced", ("True", "ReconcileSuccess"), 90, touching=True)
        world.until_ready(document, limit=60)


def test_uninstall_leaves_nothing(installed: Control):
    """docs/uninstall.md, in its order: workloads, tiers, clusters, then the packages."""
    world = installed.world
    for document in (FIRST_ENGINE, SECOND_ENGINE, THIRD_ENGINE, CHAT):
        world.remove(document)
    world.until_empty(FIRST)
    _, cluster = fleet.inference_cluster(world.rig.workload(FIRST))
    world.remove(cluster)
    configuration = installed.kubelet.name.replace("function", "configuration") + "-tier"
    install, standalone = installed.files("v0.1.0")
    in_order = ("delete", "--cascade=foreground", "--timeout=120s")
    installed.kubectl(*in_order, standalone)
    installed.kubectl(*in_order, "configuration.pkg", configuration)
    installed.kubectl(*in_order, "--ignore-not-found", install)
    world.rig.until(
        lambda: not installed.left(),
        "nothing of ours is left",
        60,
        every=1,
        explain=lambda: "\n".join(installed.left()),
    )
    # Neither comes back, and neither is the lock's list of packages too long.
    time.sleep(5)
    assert installed.left() == []
    lock = world.api.get("pkg.crossplane.io/v1beta1", "Lock", "lock")
    assert [each["name"] for each in lock.get("packages", ()) if "kv-offload" in each["name"]] == []


def test_mirror_serves_the_packages_by_digest(
    installed: Control, released: Released, tmp_path_factory: pytest.TempPathFactory
):
    """docs/install.md, after the uninstall."""
    page = (CHECKOUT / "docs" / "install.md").read_text()
    (text,) = (t for t in re.findall(r"```yaml\n(.*?)```", page, re.DOTALL) if "mirror" in t)
    with image.registry(tmp_path_factory.mktemp("mirror")) as address:
        for line in (released.made["v0.1.0"] / "DIGESTS").read_text().splitlines():
            digest, reference = line.split()
            repository, _, tag = reference.rpartition(":")
            target = f"{address}/{repository.rpartition('/')[2]}:{tag}"
            tool("crane", "copy", f"{repository}@{digest}", target)
        text = text.replace("registry.example.org/team", released.registry)
        text = text.replace("mirror.example.org/team", address)
        installed.world.api.apply(yaml.safe_load(text))
        installed.install("v0.1.0")

        def mirrored() -> bool:
            found = [*installed.installed("Function"), *installed.installed("Configuration")]
            where = [each["status"].get("resolvedPackage", "") for each in found]
            return len(where) == 4 and all(each.startswith(f"{address}/") for each in where)

        installed.world.rig.until(mirrored, "all packages come from the mirror", 60)
