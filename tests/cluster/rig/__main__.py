"""`python -m tests.cluster.rig up|down`: what `make cluster` and `make cluster-down` run."""

import argparse
import os
import signal
import sys
import time
from pathlib import Path

from tests.cluster.rig import fleet, rundir
from tests.cluster.rig.crossplane import FLEET_FLAGS
from tests.cluster.rig.functions import CHECKOUT
from tests.cluster.rig.processes import PartFailed
from tests.cluster.rig.up import Rig
from tests.tools.find import BIN, ToolsMissing

_STOP_LIMIT = 40


def main() -> int:
    parser = argparse.ArgumentParser(prog="rig", description=__doc__)
    parser.add_argument("verb", choices=("up", "down"))
    parser.add_argument("--run", type=Path, default=CHECKOUT / ".run" / "cluster")
    parser.add_argument(
        "--clusters", default="gke-h200-prod,eks-h200-prod", help="workload clusters"
    )
    given = parser.parse_args()
    try:
        return (
            up(given.run, tuple(given.clusters.split(",")))
            if given.verb == "up"
            else down(given.run)
        )
    except (PartFailed, rundir.AlreadyRunning, ToolsMissing) as failed:
        print(failed, file=sys.stderr)
        return 1


def up(run: Path, clusters: tuple[str, ...]) -> int:
    """Start the rig, declare a fleet, print how to use it, and stay until told to stop."""
    # Also SIGINT: a shell that starts us in the background has us ignore it.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _interrupt)
    try:
        with Rig(run, clusters, core_flags=FLEET_FLAGS, with_lws=False) as rig:
            fleet.declare(rig)
            print(welcome(rig), flush=True)
            known = 0
            while True:
                time.sleep(0.5)
                rig.parts.tend()
                for line in rig.parts.revived[known:]:
                    print(f"started again: {line}", flush=True)
                known = len(rig.parts.revived)
    except KeyboardInterrupt:
        print("\nstopped; nothing is left", flush=True)
    return 0


def down(run: Path) -> int:
    """Stop the rig of a run folder, wherever its terminal is."""
    pid = rundir.running(run)
    if pid is None:
        print(f"no rig runs in {run}")
        rundir.give_up(run, keep_logs=False)
        return 0
    os.kill(pid, signal.SIGTERM)
    deadline = time.monotonic() + _STOP_LIMIT
    while rundir.running(run):
        if time.monotonic() > deadline:
            print(f"process {pid} did not stop within {_STOP_LIMIT} s", file=sys.stderr)
            return 1
        time.sleep(0.1)
    print("stopped")
    return 0


def welcome(rig: Rig) -> str:
    kubectl = os.path.relpath(BIN / "kubectl", CHECKOUT)
    lines = [
        f"A fleet is up ({rig.seconds_to_start:.0f} s). The control plane, then its clusters:",
        "",
    ]
    for each in rig.clusters.values():
        lines.append(f"  export KUBECONFIG={each.kubeconfig}   # {each.name}")
    first, demo = rig.workloads[0], "tests/cluster/demo"
    lines += [
        "",
        "Try, with the control plane's KUBECONFIG (kubectl is at " + kubectl + "):",
        f"  {kubectl} get inferenceclusters",
        f"  {kubectl} apply -f {demo}/tier.yaml   # an LMCache tier on {first}",
        f"  {kubectl} get kvot -A -w                         # AGENTS 3/3, READY True",
        f"  {kubectl} apply -f {demo}/deployment.yaml",
        f"  {kubectl} get modeldeployments -A -o wide",
        "and see what arrived on the other side:",
        f"  {kubectl} --kubeconfig {rig.workload(first).kubeconfig} get pods -A -o wide",
        "",
        f"Logs are in {rig.run / 'logs'}. Ctrl-C, or `make cluster-down`, stops everything.",
    ]
    return "\n".join(lines)


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
