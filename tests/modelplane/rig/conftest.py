"""Fixtures: a control plane with Modelplane's packages and functions, and ours beside them."""

import os
import sys
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest

from tests.cluster.expect import Fleet
from tests.cluster.platform import Platform
from tests.cluster.rig.crossplane import FLEET_FLAGS
from tests.cluster.rig.fleet import SYSTEM, namespace
from tests.cluster.rig.functions import CHECKOUT
from tests.cluster.rig.kube import Manifest, is_true, load
from tests.cluster.rig.registry import registry
from tests.cluster.rig.up import Rig
from tests.modelplane import pins
from tests.modelplane.rig import dump, site
from tests.modelplane.rig.life import Life
from tests.modelplane.rig.transcript import Transcript

_PACKAGED = "modelplane-modelplane"
_FUNCTIONS = (
    "compose-inference-class",
    "compose-inference-cluster",
    "compose-model-deployment",
    "compose-model-endpoint",
    "compose-model-replica",
    "compose-usages",
)
# What gets our step: the first wires, the others report.
STEPPED = ("modelreplicas", "modeldeployments", "inferenceclusters")
_HERE = Path(__file__).parent


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """What failed leaves the state of the control plane beside the logs, as it was then."""
    report = yield
    found = item.funcargs.get("life") if isinstance(item, pytest.Function) else None
    if report.failed and isinstance(found, Life):
        rig = found.world.rig
        found.transcript.saw(f"failed: see {dump.write(rig.control.api, rig.run / 'logs')}")
    return report


@pytest.fixture(scope="session")
def checkout() -> Path:
    folder = os.environ.get("MODELPLANE", "")
    if not folder:
        how = pins.how().replace("make modelplane ", "make modelplane-rig ")
        pytest.skip(f"no checkout of Modelplane: {how}")
    path = Path(folder).resolve()
    pins.check_rig(path)
    return path


@pytest.fixture(scope="session")
def life(
    request: pytest.FixtureRequest, checkout: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Life]:
    """Modelplane, installed and with two clusters; nothing of ours but its function's process."""
    transcript = Transcript()
    with (
        Rig(
            CHECKOUT / ".run" / "modelplane",
            core_flags=FLEET_FLAGS,
            registers=False,
            function_flags=("--debug",),
        ) as rig,
        registry() as served,
    ):
        transcript.saw(f"Crossplane, a provider and {len(rig.workloads)} clusters run")
        with transcript.doing("Modelplane's functions start, its package is installed"):
            _serve(rig, checkout)
            platform = Platform(
                Fleet(rig),
                served,
                tmp_path_factory.mktemp("packages"),
                name="modelplane",
                kinds=",".join(STEPPED),
            )
            platform.definitions = _definitions(checkout)
            platform.upgrade_platform("v0.3.1")
        with transcript.doing("an InferenceClass and two InferenceClusters become Ready"):
            _declare(platform)
        found = Life(platform, transcript)
        found.watch()
        yield found
        rig.failed = bool(request.session.testsfailed)


def _serve(rig: Rig, checkout: Path) -> None:
    theirs = str(_HERE.parent / "theirs.py")
    for name in _FUNCTIONS:
        command = [sys.executable, theirs, "--checkout", str(checkout), "--function", name]
        rig.launch_function(f"{_PACKAGED}{name}", command)
    stack = [sys.executable, str(_HERE / "stack.py")]
    rig.launch_function(f"{_PACKAGED}compose-serving-stack", stack)


def _definitions(checkout: Path) -> list[dict]:
    """What Modelplane's package holds. Its providers are left out: clouds, and Helm."""
    return [d for file in sorted((checkout / "apis").rglob("*.yaml")) for d in load(file)]


def _declare(platform: Platform) -> None:
    world = platform.world
    rig, api = world.rig, world.api
    for kind in ("InferenceClass", "InferenceCluster", "ModelDeployment", "ModelReplica"):
        platform.until_served(kind)
    for name in (SYSTEM, site.TEAM):
        api.apply(namespace(name))
    api.apply(site.CLASS)
    clusters = [rig.workload(name) for name in rig.workloads]
    for cluster in clusters:
        site.furnish(rig, cluster)
        for document in site.inference_cluster(cluster):
            api.apply(document)
    for cluster in clusters:
        document = site.inference_cluster(cluster)[1]
        rig.until(
            lambda d=document: is_true(api.again(d), "Ready"),
            f"InferenceCluster {cluster.name} is Ready",
            90,
            explain=lambda d=document: world.explain(d),
        )


@pytest.fixture(scope="session")
def ours(life: Life) -> None:
    """Ours beside it: Function, Configurations, and the step in copies of Compositions."""
    world = life.world
    with life.transcript.doing("our packages kind and tier installed, the step added to copies"):
        life.platform.install_ours("kind", "tier")
        life.platform.until_served("KVOffloadTier")
        for plural in STEPPED:
            life.platform.add_step(f"{plural}.modelplane.ai")
        # What exists comes to its copy when it is written the next time.
        for name in world.rig.workloads:
            document = site.inference_cluster(world.rig.workload(name))[1]
            world.rig.until(
                lambda d=document: _uses_copy(life, d), "the policy is in force", every=1
            )
    life.transcript.saw(f"kv-offload doctor: {life.platform.doctor().strip()}")


def _uses_copy(life: Life, document: Manifest) -> bool:
    life.touch(document)
    found = life.world.get(document)["spec"]["crossplane"]["compositionRef"]["name"]
    return found.endswith("-kv-offload")
