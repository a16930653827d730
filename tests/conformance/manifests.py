"""What the function emits for an example, taken out of its Objects: rendered by `kv-offload`."""

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
Manifest = dict[str, Any]


def render(xr: Path, required: Path) -> list[Manifest]:
    """The manifests that a composite puts on its workload cluster, in the order of rendering."""
    program = Path(sys.executable).parent / "kv-offload"
    command = [program, "render", xr, "--required", required, "-o", "json"]
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, cwd=ROOT)
    if done.returncode:
        raise RuntimeError(f"kv-offload render failed:\n{done.stderr}")
    return [
        document["spec"]["forProvider"]["manifest"]
        for document in json.loads(done.stdout)["items"]
        if document["kind"] == "Object"
    ]


def one(manifests: Sequence[Manifest], kind: str, name: str = "") -> Manifest:
    """The manifest of that kind whose name contains `name`; there must be exactly one."""
    found = [m for m in manifests if m["kind"] == kind and name in m["metadata"]["name"]]
    if len(found) != 1:
        raise LookupError(f"{len(found)} of kind {kind} with {name!r} in their name")
    return found[0]
