"""One control plane for the whole run; groups clean up behind themselves."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.expect import Fleet
from tests.cluster.groups import Summary
from tests.cluster.rig import fleet
from tests.cluster.rig.crossplane import FLEET_FLAGS
from tests.cluster.rig.functions import CHECKOUT
from tests.cluster.rig.up import Rig
from tests.cluster.steady import DEPLOYMENTS, TIERS, Window, open_window
from tests.tools.find import CORE

# Core 2.3 watches nothing that is only required; only from it is there a newer one.
collect_ignore = ["test_72_storm.py" if CORE == "core-oldest" else "test_97_newer_core.py"]

# Another name lets two runs of a checkout go on side by side.
RUN = CHECKOUT / ".run" / os.environ.get("RIG_RUN", "e2e")

_SUMMARY = Summary()


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(_SUMMARY, "groups")


@pytest.fixture(scope="session")
def summary() -> Summary:
    return _SUMMARY


@pytest.fixture(scope="session")
def rig(request: pytest.FixtureRequest) -> Iterator[Rig]:
    """The rig with a declared fleet: nodes, packages, InferenceClusters.

    Core runs as the install page recommends for fleets, but for test_70_breaker.py. The logs stay
    in the run folder if a test failed.
    """
    with Rig(RUN, core_flags=FLEET_FLAGS) as started:
        fleet.declare(started)
        yield started
        started.failed = bool(request.session.testsfailed)


@pytest.fixture(scope="session")
def steady(world: Fleet) -> Iterator[Window]:
    """Two tiers and their consumers, Ready, from now on left alone."""
    with world.applied(*TIERS, *DEPLOYMENTS):
        yield open_window(world)


@pytest.fixture(scope="session")
def bare_run() -> Path:
    """A run folder for groups that start rigs of their own."""
    return RUN.with_name(f"{RUN.name}-own")


@pytest.fixture(scope="session")
def world(rig: Rig) -> Fleet:
    """Questions to ask the rig."""
    return Fleet(rig)


@pytest.fixture(scope="session")
def standin(rig: Rig) -> None:
    """The platform whose composites our step wires: its function, XRDs and Compositions."""
    folder = Path(__file__).parent / "standin"
    rig.launch_function("stand-in", [sys.executable, str(folder / "function.py")])
    rig.install_package(folder)
