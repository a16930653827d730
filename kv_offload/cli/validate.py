"""`kv-offload validate`: check tiers, for CI."""

import contextlib
import json
import sys
from collections import Counter
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kv_offload.cli.errors import Failed, user_errors
from kv_offload.render import files

if TYPE_CHECKING:
    from kv_offload.render.validate import Verdict

_KIND, _CLUSTER = "KVOffloadTier", "InferenceCluster"
_FILE = click.Path(path_type=Path, exists=True, allow_dash=True)


@click.command("validate")
@click.argument("paths", type=_FILE, nargs=-1, required=True)
@click.option(
    "-o", "--output", type=click.Choice(["text", "json"]), default="text", show_default=True
)
@user_errors()
def command(paths: tuple[Path, ...], output: str) -> None:
    """Check the KVOffloadTiers in PATHS and list every problem with its field's path.

    A path is a file, a directory, or - for the standard input; other kinds in it are passed over.
    Of a directory the YAML files in it and in all folders below count that name the kind at all;
    hidden folders (.git) do not. A file may hold a tier once. Two tiers of one cluster must not
    have the same host port or directory, nor bound the same directory of a claim: the second by
    name is refused. A fleet stands on the InferenceClusters in PATHS, where there are any; a
    warning says that it selects none of them. What a tier needs of the cluster, or of other
    objects, is not looked up. The exit code is 0 where all are valid, 1 where one is not, 2 where
    there is none or a file cannot be read.

    \b
    Examples:
      kv-offload validate tiers/
      kustomize build . | kv-offload validate -
    """
    from kv_offload.render import meetings, validate

    found, unreadable, clusters = [], [], []
    for file in (file for path in paths for file in files.containing(path, _KIND)):
        try:
            loaded = files.load_items(file)
            found += [(file, d) for d in loaded if d["kind"] == _KIND]
            clusters += [d for d in loaded if d["kind"] == _CLUSTER]
        except files.InputError as error:
            unreadable.append(str(error))
    if not found and not unreadable:
        raise files.InputError(f"{', '.join(map(str, paths))}: no {_KIND} found")
    verdicts = [(path, validate.validate(document)) for path, document in found]
    count = Counter((path, verdict.name) for path, verdict in verdicts)
    twice = {place for place, times in count.items() if times > 1}
    verdicts = [
        (path, _refuse_duplicate(verdict) if (path, verdict.name) in twice else verdict)
        for path, verdict in verdicts
    ]
    clusters += _clusters(paths, {file for file, _ in found})
    second: dict[str, list[str]] = {}
    for conflict in meetings.conflicts([*(document for _, document in found), *clusters]):
        second.setdefault(conflict.second, []).append(f"conflict: {conflict.message}")
    verdicts = [
        (path, _refuse(verdict, second[verdict.name]) if verdict.name in second else verdict)
        for path, verdict in verdicts
    ]
    if clusters:
        verdicts = [
            (path, _warn_of_no_cluster(verdict, document, clusters))
            for (path, verdict), (_, document) in zip(verdicts, found, strict=True)
        ]
    if output == "json":
        shown = [{"file": str(path), **asdict(verdict)} for path, verdict in verdicts]
        answer = {"tiers": shown, "unreadable": unreadable}
        click.echo(json.dumps(answer, indent=2, ensure_ascii=False))
    for path, verdict in verdicts if output == "text" else ():
        click.echo(f"{'✔' if verdict.valid else '✘'} {verdict.name} ({path})")
        for text in verdict.lines:
            click.echo(f"  {text}")
    if unreadable:
        raise files.InputError("\n".join(unreadable))
    if not all(verdict.valid for _, verdict in verdicts):
        sys.exit(Failed.exit_code)


def _clusters(paths: tuple[Path, ...], read: set[Path]) -> list[files.Document]:
    """Return the InferenceClusters of files without a tier; an unreadable one is passed over."""
    found = []
    for file in (file for path in paths for file in files.containing(path, _CLUSTER)):
        if file not in read and str(file) != "-":
            with contextlib.suppress(files.InputError):
                found += [d for d in files.load_items(file) if d["kind"] == _CLUSTER]
    return found


def _warn_of_no_cluster(
    verdict: "Verdict", tier: files.Document, clusters: list[files.Document]
) -> "Verdict":
    """Return the verdict on a valid fleet with a warning where it selects no given cluster."""
    from kv_offload.render import fleet_plan

    if not verdict.valid or not fleet_plan.is_fleet(tier) or fleet_plan.clusters(tier, clusters):
        return verdict
    warning = (
        "warning: spec.clusterSelector.matchLabels: none of the given InferenceClusters carries"
        " these labels"
    )
    return replace(verdict, lines=(warning, *verdict.lines))


def _refuse_duplicate(verdict: "Verdict") -> "Verdict":
    """Return the verdict on a tier whose file has another document of its name."""
    problem = "metadata.name: another document of this file has it; the cluster keeps the last one"
    return _refuse(verdict, [problem])


def _refuse(verdict: "Verdict", problems: list[str]) -> "Verdict":
    """Return the verdict with these problems, first of all."""
    lines = () if verdict.valid else verdict.lines
    return replace(verdict, valid=False, lines=(*problems, *lines))
