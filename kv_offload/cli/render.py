"""`kv-offload render`: render a composite through its pipeline, in process."""

import sys
from pathlib import Path

import click

from kv_offload.cli.errors import Failed, Fatal, user_errors
from kv_offload.render import conditions, defaults, emit, files, inputs, merge, reconcile, tree

_EXISTING = click.Path(path_type=Path, exists=True)
_FILE = click.Path(path_type=Path, exists=True, allow_dash=True)


def _step(_: click.Context, __: click.Parameter, values: tuple[str, ...]) -> dict[str, Path]:
    steps = {}
    for value in values:
        name, equals, path = value.partition("=")
        if not (name and equals and path):
            raise click.BadParameter(f"{value!r} is not NAME=FILE")
        steps[name] = Path(path)
    return steps


@click.command("render")
@click.argument("xr", type=_FILE)
@click.argument("composition", type=_EXISTING, required=False)
@click.option(
    "-e",
    "--required",
    "--required-resources",
    type=_EXISTING,
    multiple=True,
    help="What the function may ask the cluster for: InferenceClusters, tiers, Usages. A YAML file"
    " or a directory of them; may be repeated.",
)
@click.option(
    "--observed",
    "--observed-resources",
    type=_EXISTING,
    multiple=True,
    help="Composed resources as they are now, with their status. File or directory; repeatable.",
)
@click.option(
    "-s",
    "--schemas",
    "--required-schemas",
    type=_EXISTING,
    help="Directory of OpenAPI v3 documents (kubectl get --raw /openapi/v3/apis/GROUP/VERSION).",
)
@click.option(
    "--function-credentials",
    "credentials",
    type=_EXISTING,
    multiple=True,
    help="Secrets that the pipeline's steps take credentials from.",
)
@click.option(
    "--step",
    "steps",
    multiple=True,
    callback=_step,
    metavar="NAME=FILE",
    help="What another function's step leaves in desired state: only ours runs here.",
)
@click.option("-r", "--results", is_flag=True, help="Print the functions' results as well.")
@click.option("-x", "--full-xr", is_flag=True, help="Print the composite with its spec.")
@click.option("-c", "--context", is_flag=True, help="Print the pipeline's context as well.")
@click.option(
    "-o",
    "--output",
    type=click.Choice(["yaml", "json", "tree"]),
    default=lambda: "tree" if sys.stdout.isatty() else "yaml",
    show_default="tree on a terminal, else yaml",
    help="yaml and json hold what `crossplane composition render` prints; tree is for people.",
)
@user_errors()
def command(
    xr: Path,
    composition: Path | None,
    required: tuple[Path, ...],
    observed: tuple[Path, ...],
    schemas: Path | None,
    credentials: tuple[Path, ...],
    steps: dict[str, Path],
    results: bool,
    full_xr: bool,
    context: bool,
    output: str,
) -> None:
    """Show what Crossplane would compose for the composite in XR, without a cluster.

    XR is a YAML file with one KVOffloadTier, InferenceCluster or ModelDeployment, or any composite
    for which COMPOSITION is given. The output is that of `crossplane composition render`
    (Crossplane 2.3), which needs Crossplane's own binaries and a running function.

    \b
    Examples:
      kv-offload render tier.yaml --required clusters/ -o tree
      kv-offload render replica.yaml composition.yaml -e required/ --step compose=modelplane.yaml
    """
    if output == "tree" and (results or full_xr or context):
        raise click.UsageError("--results, --full-xr and --context need --output yaml or json")
    document = files.load_one(xr, "composite")
    inputs.check_composite(document, str(xr))
    if composition is None:
        chosen = defaults.composition(document)
    else:
        chosen = files.load_one(composition, "Composition")
        inputs.check_pair(document, chosen, str(composition))
    looked_up = files.load_all(required)
    inputs.check_required(document, looked_up, str(xr))
    chosen, presets = inputs.with_presets(chosen, defaults.FUNCTION, steps)
    # Everything these import is not needed for --help.
    import structlog

    from function.fn import FunctionRunner
    from kv_offload.render import planned

    if document["kind"] == "KVOffloadTier":
        planned.named(document, str(xr))  # a name that no API server takes is refused
    # What the function logs stands beside the answer, never in it.
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))

    rendering = reconcile.Inputs(
        xr=document,
        composition=chosen,
        runners={defaults.FUNCTION: FunctionRunner(clock=lambda: conditions.NOW), **presets},
        observed=files.load_all(observed),
        required=looked_up,
        credentials=files.load_all(credentials),
        schemas=files.load_schemas(schemas) if schemas else (),
    )
    try:
        rendered = reconcile.render(rendering)
    except reconcile.RenderError as error:
        raise Failed(str(error)) from error
    _print(document, rendered, output, results=results, full_xr=full_xr, context=context)
    if rendered.fatal:
        raise Fatal(rendered.fatal)


def _print(
    document: files.Document,
    rendered: reconcile.Rendered,
    output: str,
    *,
    results: bool,
    full_xr: bool,
    context: bool,
) -> None:
    if output == "tree":
        tree.show(document, rendered)
        return
    full = full_xr and not rendered.fatal
    documents = [merge.merged(document, rendered.xr) if full else rendered.xr, *rendered.composed]
    documents += rendered.results() if results else []
    documents += [reconcile.context_document(rendered)] if context and not rendered.fatal else []
    click.echo(emit.to_json(documents) if output == "json" else emit.to_yaml(documents), nl=False)
