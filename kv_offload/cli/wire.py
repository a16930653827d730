"""`kv-offload wire`: wire manifests that Crossplane does not compose."""

import sys
from pathlib import Path

import click

from function.api.input import KIND
from kv_offload.cli import step_input
from kv_offload.cli.errors import Fatal, user_errors
from kv_offload.render import emit, files, resource_list, wiring

_FILE = click.Path(path_type=Path, exists=True, allow_dash=True)


@click.command("wire")
@click.argument("manifests", type=_FILE, nargs=-1)
@click.option(
    "--tier",
    "tiers",
    type=_FILE,
    multiple=True,
    help="KVOffloadTiers: a YAML file or a directory of them; repeatable. Those among the"
    " manifests count too.",
)
@click.option(
    "--namespace",
    "-n",
    envvar="HELM_NAMESPACE",
    default="",
    help="Namespace of manifests that name none.  [default: $HELM_NAMESPACE]",
)
@step_input.OPTION
@user_errors()
def command(
    manifests: tuple[Path, ...], tiers: tuple[Path, ...], namespace: str, input_file: Path | None
) -> None:
    """Print MANIFESTS with every engine wired to the tier that its pods name.

    MANIFESTS are files or directories; default: the standard input, also as a KRM function's
    ResourceList. All other documents are printed as they are. What is told goes to the standard
    error. Exit code 3: an engine cannot be wired; then nothing is printed, unless its pods say
    modelplane.ai/kv-offload-policy: Optional.

    \b
    Examples:
      helm template chart | kv-offload wire --tier t.yaml -n a | kubectl apply -n a -f -
      helm install vllm chart --post-renderer kv-offload --post-renderer-args wire ...
    """
    paths = manifests or (Path("-"),)
    if [*map(str, paths), *map(str, tiers)].count("-") > 1:
        raise files.InputError("only one of the manifests and the tiers can be read from -")
    loaded = [document for path in paths for document in files.load(path)]
    is_function = resource_list.is_one(loaded)
    config = resource_list.function_config(loaded[0], KIND) if is_function else {}
    listed = resource_list.items(loaded[0]) if is_function else loaded
    documents = files.open_lists(listed, "the manifests")
    known = files.load_all(tiers) + documents
    wirer = wiring.Wirer(
        [each for each in known if each.get("kind") == "KVOffloadTier"],
        step_input.load(input_file) if input_file else step_input.read(config),
        namespace,
    )
    answer = wirer.wire_all(documents)
    for title, text in [*answer.notes, *answer.refused]:
        click.echo(": ".join(filter(None, (title, text))), err=True)
    if answer.refused:
        sys.exit(Fatal.exit_code)
    made = answer.documents
    shown = [resource_list.with_items(loaded[0], made)] if is_function else made
    click.echo(emit.to_yaml(shown), nl=False)
