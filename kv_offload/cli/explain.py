"""`kv-offload explain`: show what a pod would get from a tier, and why."""

import json
import sys
from pathlib import Path

import click

from function.api.engines import ENGINES
from kv_offload.cli import step_input
from kv_offload.cli.errors import Fatal, user_errors
from kv_offload.render import emit, files
from kv_offload.render.tiers import distinct

_FILE = click.Path(path_type=Path, exists=True, allow_dash=True)


@click.command("explain")
@click.argument("workload", type=_FILE)
@click.option(
    "--tier",
    "tier_files",
    type=_FILE,
    multiple=True,
    required=True,
    help="KVOffloadTiers, and those that they need: a YAML file or a directory; - reads stdin;"
    " repeatable. Of several, the one that the pods name is taken.",
)
@click.option("--all-tiers", is_flag=True, help="Show for each tier whether it fits.")
@click.option(
    "--engine", help=f"Declare the engine ({', '.join(ENGINES)}) instead of looking it up."
)
@click.option("--engine-version", help="Declare its version, e.g. 0.33.0; with --engine.")
@step_input.OPTION
@click.option("--namespace", "-n", help="Namespace of the consumer: the tier must admit it.")
@click.option(
    "-o",
    "--output",
    type=click.Choice(["tree", "diff", "yaml", "json"]),
    default="tree",
    show_default=True,
    help="diff: what wiring changes; yaml: the wired workload; json: the verdict.",
)
@user_errors()
def command(
    workload: Path,
    tier_files: tuple[Path, ...],
    all_tiers: bool,
    engine: str | None,
    engine_version: str | None,
    input_file: Path | None,
    namespace: str | None,
    output: str,
) -> None:
    """Show what the pods of WORKLOAD would get from a tier, and why, or why they get nothing.

    WORKLOAD is a YAML file (- for the standard input) with a Pod, a Deployment, a LeaderWorkerSet,
    any other known workload, or an Object that holds one; other documents are ignored, and
    workloads that name no tier where others name one. Nothing is looked up: the tier is assumed
    ready, and on the workload's cluster. Exit code 3: not wired, with --all-tiers by none. With
    -o diff and yaml, text for people goes to the standard error. Pods that no Composition composes
    are wired by `kv-offload wire`.

    \b
    Examples:
      kv-offload explain deployment.yaml --tier tier.yaml
      kv-offload explain pod.yaml --tier tier.yaml -o diff
      helm template chart | kv-offload explain - --tier tier.yaml --namespace team-a
      kubectl get kvoffloadtiers -A -o yaml | kv-offload explain pod.yaml --tier - --all-tiers
    """
    from kv_offload.render import explain, tree

    if [str(workload), *map(str, tier_files)].count("-") > 1:
        raise files.InputError("only one of the workload and the tiers can be read from -")
    if all_tiers and output != "tree":
        raise click.UsageError("--all-tiers prints a line for each tier: it takes no --output")
    overrides = {"engine": engine, "engineVersion": engine_version}
    inputs = step_input.load(input_file, overrides)
    tiers = distinct(files.load_all(tier_files))
    given = ", ".join(map(str, tier_files))
    if not tiers:
        raise files.InputError(f"{given}: no KVOffloadTier found")
    loaded = files.load_items(workload)
    documents = explain.workloads_in(loaded, str(workload))
    siblings = explain.siblings_in(loaded)
    documents = explain.requesting(documents, inputs, siblings)
    if all_tiers:
        nowhere = False
        for document in documents:
            if len(documents) > 1:
                click.echo(explain.Explained(document).title)
            rows = [
                explain.summary(document, each, inputs, given, siblings, tiers, namespace)
                for each in tiers
            ]
            for row in rows:
                click.echo(str(row))
            nowhere |= not any(row.fits for row in rows)
        if nowhere:
            sys.exit(Fatal.exit_code)
        return
    found = []
    for document in documents:
        tier = explain.chosen(document, tiers, inputs, given, siblings, namespace)
        found.append(explain.explain(document, tier, inputs, given, namespace, siblings, tiers))
    if output == "json":
        shown = {"workloads": [explain.verdict(each) for each in found]}
        click.echo(json.dumps(shown, indent=2, ensure_ascii=False))
    else:
        for explained in found:
            if output == "tree" or not explained.fits:
                # A refusal never stands in a stream of manifests.
                where = sys.stdout if output == "tree" else sys.stderr
                tree.write(explain.as_tree(explained), where)
            elif output == "diff":
                click.echo(explained.diff(), nl=False)
    if output == "yaml":
        wired = [each.after or {} for each in found if each.fits]
        click.echo(emit.to_yaml(wired) if wired else "", nl=False)
    if not all(explained.fits for explained in found):
        sys.exit(Fatal.exit_code)
