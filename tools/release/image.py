"""The runtime image as a file, without a builder: the Dockerfile's steps, put together by crane."""

import hashlib
import json
import os
import subprocess
import tarfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from dockerfile_parse import DockerfileParser

from tests.cluster.rig.ports import free_ports, listening
from tests.cluster.rig.wait import until
from tests.tools.find import require

PARTS = ("base", "packages", "function")


def tool(name: str, *arguments: str | Path, **more: Any) -> str:
    """Run a pinned Go program and return the text that it prints."""
    return output(name, *arguments, **more).decode().strip()


def output(name: str, *arguments: str | Path, **more: Any) -> bytes:
    """Run a pinned Go program and return the bytes that it prints."""
    command = [str(require(name)), *map(str, arguments)]
    return subprocess.run(command, stdout=subprocess.PIPE, check=True, **more).stdout


def reusable(work: Path, source: Path, arch: str) -> Path:
    """Return the folder for one architecture's files; other requirements or steps get another."""
    inputs = ("requirements.txt", "package/image/steps.sh")
    digests = [hashlib.sha256((source / each).read_bytes()).hexdigest() for each in inputs]
    return work / f"{arch}-{hashlib.sha256(''.join(digests).encode()).hexdigest()[:16]}"


@contextmanager
def registry(folder: Path) -> Iterator[str]:
    """Serve a registry on the loopback address that takes pushes; its address."""
    (port,) = free_ports(1)
    folder.mkdir(parents=True, exist_ok=True)
    address = f"127.0.0.1:{port}"
    command = [str(require("crane")), "registry", "serve", "--address", address, "--disk", folder]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as process:
        try:
            until(lambda: listening(port), "the registry listens")
            yield address
        finally:
            process.terminate()


def configuration(dockerfile: Path) -> list[str]:
    """Return crane's flags for what the Dockerfile's last stage declares."""
    flags: list[str] = []
    with dockerfile.open("rb") as file:
        steps = DockerfileParser(fileobj=file).structure
    last = max(n for n, step in enumerate(steps) if step["instruction"] == "FROM")
    for step in steps[last:]:
        value = step["value"]
        match step["instruction"]:
            case "ENV":
                flags += [f"--env={pair}" for pair in value.split()]
            case "EXPOSE":
                flags += [f"--exposed-ports={port}/tcp" for port in value.split()]
            case "USER":
                flags += [f"--user={value}"]
            case "ENTRYPOINT":
                flags += [f"--entrypoint={','.join(json.loads(value))}"]
    return flags


def files(source: Path, out: Path, arch: str, epoch: int) -> None:
    """Run the steps for one architecture."""
    environment = os.environ | {"SOURCE_DATE_EPOCH": str(epoch)}
    steps = [source / "package" / "image" / "steps.sh", source, out, arch]
    subprocess.run(list(map(str, steps)), env=environment, check=True)


def layer(folder: Path, file: Path, epoch: int) -> Path:
    """Write a folder as a tar archive that depends on nothing but its files and their modes."""

    def plain(member: tarfile.TarInfo) -> tarfile.TarInfo:
        member.uid = member.gid = 0
        member.uname = member.gname = ""
        member.mtime = epoch
        return member

    if not folder.is_dir():
        raise FileNotFoundError(f"{folder}: the steps did not write this layer")
    with tarfile.open(file, "w", format=tarfile.GNU_FORMAT) as archive:
        for path in sorted(folder.rglob("*")):
            name = str(path.relative_to(folder))
            archive.add(path, name, recursive=False, filter=plain)
    return file


def build(source: Path, out: Path, arch: str, epoch: int, labels: Mapping[str, str]) -> Path:
    """Write the image of one architecture as `docker save` does; the file."""
    files(source, out, arch, epoch)
    layers = [layer(out / part, out / f"{part}.tar", epoch) for part in PARTS]
    target = out / "image.tar"
    with registry(out / "registry") as address:
        name = f"{address}/function:{arch}"
        tool("crane", "append", *(f"--new_layer={each}" for each in layers), f"--new_tag={name}")
        flags = [f"--label={key}={value}" for key, value in labels.items()]
        flags += [*configuration(source / "Dockerfile"), f"--set-platform=linux/{arch}"]
        tool("crane", "mutate", name, *flags, f"--tag={name}")
        tool("crane", "pull", name, target)
    return target
