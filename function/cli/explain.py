"""`kv-offload explain`: what a pod would get from a tier, and why."""

import sys
from pathlib import Path

import click

from function.cli.errors import Fatal, user_errors
from function.render import emit, files

_EXISTING = click.Path(path_type=Path, exists=True, dir_okay=False)


@click.command("explain")
@click.argument("workload", type=_EXISTING)
@click.option("--tier", type=_EXISTING, required=True, help="YAML file with the KVOffloadTier.")
@click.option("--engine", help="Declare the engine (vLLM, SGLang) instead of looking it up.")
@click.option("--engine-version", help="Declare its version, e.g. 0.33.0; with --engine.")
@click.option(
    "-o",
    "--output",
    type=click.Choice(["tree", "diff", "yaml", "json"]),
    default="tree",
    show_default=True,
    help="diff shows what wiring changes; yaml and json are the wired workload.",
)
@user_errors()
def command(
    workload: Path, tier: Path, engine: str | None, engine_version: str | None, output: str
) -> None:
    """Say what the pods of WORKLOAD would get from a tier, and why, or why they get nothing.

    WORKLOAD is a YAML file with a Pod, a Deployment, a LeaderWorkerSet, an Object that holds one,
    or any other workload that the function knows. Nothing is looked up: the tier counts as ready
    and as standing on the workload's cluster.

    \b
    Examples:
      kv-offload explain deployment.yaml --tier tier.yaml
      kv-offload explain pod.yaml --tier tier.yaml -o diff
    """
    from function.api.base import parse
    from function.api.input import Input
    from function.render import explain, tree

    written = {"engine": engine, "engineVersion": engine_version}
    step_input, problems = parse(Input, {k: v for k, v in written.items() if v}, "")
    if step_input is None or problems:
        raise files.InputError("; ".join(str(problem) for problem in sorted(problems)))
    document = files.load_one(workload, "workload")
    explained = explain.explain(document, files.load_one(tier, "tier"), step_input, str(tier))
    if output == "tree" or explained.refused is not None:
        tree.write(explain.as_tree(explained), sys.stdout)
    elif output == "diff":
        click.echo(explained.diff(), nl=False)
    else:
        write = emit.to_json if output == "json" else emit.to_yaml
        click.echo(write([explained.after or {}]), nl=False)
    if explained.refused is not None:
        sys.exit(Fatal.exit_code)
