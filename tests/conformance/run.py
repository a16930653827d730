"""Run pytest in namespaces of its own, so that emitted pods can run in it as processes.

    python -m tests.conformance.run [PYTEST ARGUMENTS]

Builds the environments (they need the network; with `--gpu` a kit has brought them), then gives way
to pytest in new network, mount and process-id namespaces: addresses, mounts and stray processes end
with it, and nothing of the machine is changed. Without root it takes a user namespace, in which
pods then keep one user id.
"""

import os
import shutil
import sys

from tests.conformance.envs import (
    FURTHER,
    PAYLOAD,
    EnvironmentUnavailable,
    environment,
    environment_with,
    release,
)
from tests.tools import find

MARK = "KV_OFFLOAD_NODE"  # set to "root" or "user" inside


def main() -> int:
    needed = [tool for tool in ("unshare", "nsenter", "ip", "mount") if shutil.which(tool) is None]
    if needed:
        print(f"not on the PATH: {' '.join(needed)} (util-linux, iproute2)", file=sys.stderr)
        return 1
    try:
        if "--gpu" not in sys.argv:
            find.require("etcd")
            for name in ("vllm", "sglang"):
                environment(name)
            for name in FURTHER:
                environment_with(name)
            for requirement in PAYLOAD:
                release(requirement)
    except (EnvironmentUnavailable, find.ToolsMissing) as problem:
        print(problem, file=sys.stderr)
        return 1
    root = os.geteuid() == 0
    os.environ[MARK] = "root" if root else "user"
    user = [] if root else ["--user", "--map-root-user"]
    private = ["--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
    # What a probe leaves when it times out goes to process 1: unreaped, its pod would never end.
    init = ["tini", "--"] if shutil.which("tini") else []
    tests = [sys.executable, "-m", "pytest", *(sys.argv[1:] or [os.path.dirname(__file__)])]
    os.execvp("unshare", ["unshare", *user, *private, *init, *tests])


if __name__ == "__main__":
    sys.exit(main())
