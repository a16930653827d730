"""`crossplane resource validate`, offline, on what a case renders: unknown fields and CEL rules.

The schemas are our XRDs and the Input's CRD, provider-kubernetes' and Crossplane's own CRDs out of
their module zips. A composite is validated whole (spec and status) unless the function refused it;
composites and bare workloads of others have no schema here and are left out.
"""

import contextlib
import json
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from kv_offload.render import conditions, emit, merge
from tests.render.case import Case, Pass
from tests.render.engines import Answer
from tests.render.servers import ROOT
from tests.tools import find

Document = dict[str, Any]

_GROUPS = ("modelplane.ai", "kubernetes.m.crossplane.io", "protection.crossplane.io")
_OTHERS = ("ModelReplica",)
_PROVIDER = "github.com/crossplane-contrib/provider-kubernetes"
_CORE = "github.com/crossplane/crossplane/v2"
_CRDS = (
    ("provider-kubernetes", _PROVIDER, "package/crds/kubernetes.m.crossplane.io_*.yaml"),
    (find.CORE, _CORE, "cluster/crds/protection.crossplane.io_usages.yaml"),
    (find.CORE, _CORE, "cluster/crds/apiextensions.crossplane.io_compositions.yaml"),
)


class Validator:
    """The CLI with a folder of schemas."""

    def __init__(self, cli: Path, extensions: Path) -> None:
        self.cli = cli
        self.extensions = extensions

    def problems(self, documents: Sequence[Document]) -> list[str]:
        """`kind/name: message` for everything that is not valid."""
        known = [d for d in documents if _has_schema(d)]
        if not known:
            return []
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "resources.yaml"
            file.write_text(emit.to_yaml(known))
            command = [self.cli, "resource", "validate", self.extensions, file, "-o", "json"]
            command += ["--error-on-missing-schemas", "--crossplane-image="]
            command += [f"--cache-dir={folder}/cache"]
            done = subprocess.run(command, capture_output=True, text=True, timeout=300)
        if not done.stdout:
            raise RuntimeError(f"crossplane resource validate: {done.stderr}")
        report = json.loads(done.stdout)
        if report["summary"]["total"] != len(known):
            raise RuntimeError(f"{report['summary']['total']} of {len(known)} were validated")
        return [
            f"{item['kind']}/{item['name']}: {error['message']}"
            for item in report["resources"]
            if item["status"] != "valid"
            for error in item.get("errors") or [{"message": item["status"]}]
        ]


@contextlib.contextmanager
def validator() -> Iterator[Validator]:
    """ToolsMissing where the CLI, or Go for the module zips, is not there."""
    cli = find.require("crossplane")
    with tempfile.TemporaryDirectory() as folder:
        for source in [*(ROOT / "xrd").rglob("*.yaml"), *(ROOT / "package/input").glob("*.yaml")]:
            shutil.copy(source, Path(folder) / f"{source.parent.name}-{source.name}")
        for program, module, pattern in _CRDS:
            for source in find.module_dir(program, module).glob(pattern):
                shutil.copy(source, folder)
        yield Validator(cli, Path(folder))


def documents(case: Case, one: Pass, answer: Answer) -> list[Document]:
    """What of a pass is to be validated."""
    if not answer.xr:
        return []
    refused = any(
        c["type"] == "Accepted" and c["status"] == "False" for c in conditions.read(answer.xr)
    )
    whole = merge.merged(case.composite(one), answer.xr)
    return [*([] if refused else [whole]), *answer.composed]


def _has_schema(document: Document) -> bool:
    group = document["apiVersion"].partition("/")[0]
    return group in _GROUPS and document["kind"] not in _OTHERS
