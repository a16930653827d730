"""Copy packages of this payload image into a volume that an engine's container mounts.

    payload.py IMAGE TARGET NAME ...

IMAGE: this image, for messages. Each NAME is a folder of /payload. It runs again where the kubelet
restarts it: a folder that is whole already stays. Standard library alone.
"""

import os
import shutil
import sys
from pathlib import Path

SOURCE = Path("/payload")


def copied(source: Path, target: Path) -> None:
    """Copy a folder; a name of its own until it is whole."""
    if target.exists():
        return
    partial = target.with_name(f".{target.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    shutil.copytree(source, partial)
    os.rename(partial, target)


def main(image: str, target: str, *names: str) -> str:
    """Return what is wrong, "" for nothing."""
    there = sorted(path.name for path in SOURCE.iterdir())
    missing = [name for name in names if name not in there]
    if missing:
        return (
            f"the payload image {image} holds no {', '.join(missing)} (it holds "
            f"{', '.join(there) or 'nothing'}): build it from the function's release, and name it "
            "in spec.payload of the tier"
        )
    for name in names:
        try:
            copied(SOURCE / name, Path(target, name))
        except OSError as error:
            return f"{name} cannot be copied from {image}: {error}"
        print(f"{name} copied", flush=True)
    return ""


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]) or 0)
