"""`make image-check`: lint the Dockerfile, then do what it would do without a daemon.

The build stage's COPY and RUN steps run in a scratch folder: `/src` and `/venv` become folders of
it, and the machine's own Python (3.11 or newer) stands in for the base image's. The final stage's
ENTRYPOINT is then started, as its USER where this process may change user, and must answer the
gRPC health check. What this cannot show: the base image itself and its Debian packages.
"""

import contextlib
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import grpc
from dockerfile_parse import DockerfileParser
from grpc_health.v1 import health_pb2, health_pb2_grpc

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = "venv/bin/kv-offload"


def main() -> None:
    subprocess.run(
        ["hadolint", "--failure-threshold", "info", str(ROOT / "Dockerfile")], check=True
    )
    print("lint: no finding")
    with tempfile.TemporaryDirectory() as scratch:
        final = build(Path(scratch))
        lean(Path(scratch))
        serve(Path(scratch), final)


def build(scratch: Path) -> list[dict[str, str]]:
    """Run the build stage; the instructions of the final stage are returned."""
    stages: list[list[dict[str, str]]] = []
    with open(ROOT / "Dockerfile", "rb") as dockerfile:
        for step in DockerfileParser(fileobj=dockerfile).structure:
            if step["instruction"] == "FROM":
                stages.append([])
            elif stages:
                stages[-1].append(step)
    source = scratch / "src"
    source.mkdir()
    scratch.chmod(0o755)
    env = {**os.environ}
    for step in stages[0]:
        text = placed(step["value"], scratch)
        if step["instruction"] == "ENV":
            env |= dict(pair.split("=", 1) for pair in text.split())
        elif step["instruction"] == "COPY":
            *names, _ = text.split()
            for name in names:
                copy(ROOT / name, source / name)
        elif step["instruction"] == "RUN":
            subprocess.run(["sh", "-ec", text], cwd=source, env=env, check=True)
            print(f"ran: {step['value']}")
    return stages[1]


def lean(scratch: Path) -> None:
    """Fail when the image holds what only people run, or a distribution that no file pins."""
    installed = installed_in(scratch / "venv")
    pinned = {line.partition("==")[0] for line in (ROOT / "requirements.txt").read_text().split()}
    if found := installed ^ (pinned | {"function-kv-offload"}):
        sys.exit(f"the image and requirements.txt differ: {', '.join(sorted(found))}")
    paths = [*scratch.glob("venv/lib/python*/site-packages/kv_offload*"), scratch / PROGRAM]
    if found := [str(path) for path in paths if path.exists()]:
        sys.exit(f"the image holds the command line: {', '.join(found)}")
    print(f"installed: {len(installed)} distributions, none of the command line")


def installed_in(venv: Path) -> set[str]:
    """Return the normalized names of the distributions in a virtual environment."""
    metadata = venv.glob("lib/python*/site-packages/*.dist-info")
    return {path.name.partition("-")[0].replace("_", "-").lower() for path in metadata}


def placed(text: str, scratch: Path) -> str:
    """The step's text with the image's folders in the scratch folder."""
    return text.replace("/venv", str(scratch / "venv"))


def copy(source: Path, target: Path) -> None:
    if source.is_dir():
        shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
    else:
        shutil.copy(source, target)


def serve(scratch: Path, final: list[dict[str, str]]) -> None:
    """Start the ENTRYPOINT and ask for its health."""
    steps = {step["instruction"]: step["value"] for step in final}
    uid = int(steps["USER"].partition(":")[0])
    entrypoint = placed(steps["ENTRYPOINT"].strip('[]"'), scratch)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    process, who = start([entrypoint, "--insecure", "--address", address], uid)
    try:
        with grpc.insecure_channel(address) as channel:
            grpc.channel_ready_future(channel).result(timeout=30)
            stub = health_pb2_grpc.HealthStub(channel)
            status = stub.Check(health_pb2.HealthCheckRequest()).status  # type: ignore[attr-defined]
        if status != health_pb2.HealthCheckResponse.SERVING:
            sys.exit(f"the function answers, and says {status}")
        begun = time.monotonic()
        process.terminate()
        code = process.wait(10)
        seconds = time.monotonic() - begun
        print(f"served as {who}; health SERVING; SIGTERM: exit {code} in {seconds:.1f} s")
        if code != 0:
            sys.exit("the function does not stop cleanly")
    finally:
        process.kill()


def start(command: list[str], uid: int) -> tuple[subprocess.Popen, str]:
    """The process as the image's user, or as this one where the user cannot be changed.

    A Python below a closed home folder (pyenv's) cannot be run by another user.
    """
    env = {"HOME": "/nonexistent"}
    if os.getuid() == 0:
        with contextlib.suppress(PermissionError):
            user = {"user": uid, "group": uid, "extra_groups": []}
            return subprocess.Popen(command, cwd="/", env=env, **user), f"uid {uid}"
    return subprocess.Popen(command, cwd="/", env=env), f"uid {os.getuid()} (not the image's)"


if __name__ == "__main__":
    main()
