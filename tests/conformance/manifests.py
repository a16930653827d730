"""What the function emits for an example, taken out of its Objects: rendered by `kv-offload`."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from kv_offload.cli import main

ROOT = Path(__file__).parents[2]
Manifest = dict[str, Any]


def render(xr: Path, required: Path) -> list[Manifest]:
    """The manifests that a composite puts on its workload cluster, in the order of rendering."""
    # Not a process each time: its start takes seconds where processors are few and slow.
    done = CliRunner().invoke(main, ["render", str(xr), "--required", str(required), "-o", "json"])
    if done.exit_code:
        raise RuntimeError(f"kv-offload render failed:\n{done.output}") from done.exception
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
