"""`kv-offload add-step`: add our step to a Composition, to its copy, or to a package."""

from pathlib import Path

import click

from function.kube import access
from kv_offload.cli.errors import user_errors
from kv_offload.render import append, defaults, emit, files, packaged

POLICY, REFERENCE = "Policy", "Reference"

_FILE = click.Path(path_type=Path, exists=True, dir_okay=False, allow_dash=True)


@click.command("add-step")
@click.argument("source", type=_FILE)
@click.option("-w", "--write", is_flag=True, help="Change the file; without it, print the result.")
@click.option(
    "--name",
    help="Name of the copy of a packaged Composition.  [default: its own, and -kv-offload]",
)
@click.option(
    "--select",
    type=click.Choice([POLICY, REFERENCE]),
    default=POLICY,
    show_default=True,
    help="How composites choose the copy. Policy: by an admission policy (Kubernetes 1.36)."
    " Reference: each names it in spec.crossplane.compositionRef.",
)
@click.option(
    "--package",
    "folder",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="FOLDER",
    help="SOURCE is a whole Configuration package: write it here, to be built anew.",
)
@click.option(
    "--kind",
    default="ModelReplica",
    show_default=True,
    help="With --package: the composite kind whose Composition gets the step.",
)
@click.option(
    "--function-name",
    default=defaults.FUNCTION,
    show_default=True,
    help="Name of the installed Function.",
)
@click.option("--step-name", default="kv-offload", show_default=True, help="Name of the new step.")
@user_errors()
def command(
    source: Path,
    write: bool,
    name: str | None,
    select: str,
    folder: Path | None,
    kind: str,
    function_name: str,
    step_name: str,
) -> None:
    """Append our step to the end of a Composition's pipeline.

    SOURCE is a file with a Composition, - for the standard input. Your own gets three lines; every
    other byte stays. For one that a package brought (`kubectl get -o yaml`) you get a copy under
    another name, because Crossplane undoes edits of packaged Compositions at its next start. An
    admission policy comes with it, because Crossplane otherwise picks one of both Compositions at
    random. Renew the copy when the package is upgraded; `kv-offload doctor` tells when.

    With --package, SOURCE is the output of `crossplane xpkg extract`, and the step is added there.

    With Modelplane, add the step to ModelReplica's Composition.

    \b
    Examples:
      kv-offload add-step --write mine.yaml
      kubectl get composition modelreplicas.modelplane.ai -o yaml > packaged.yaml
      kv-offload add-step packaged.yaml | kubectl apply -f -
      crossplane xpkg extract registry.example/platform:v1.0.0 -o platform.gz
      kv-offload add-step platform.gz --package platform/
      crossplane xpkg build --package-root platform/ --package-file platform.xpkg
    """
    if str(source) == "-" and (write or folder is not None):
        raise files.InputError("--write and --package need a file, not the standard input")
    if folder is not None:
        return _rebuild(source, folder, kind, step_name, function_name)
    text = _read(source)
    documents = files.parse(text, str(source))
    composition = documents[append.only(documents, str(source))]
    _note_modelplane(composition)
    if packaged.is_packaged(composition) and not append.has_step(composition, function_name):
        changed = _copy(composition, name, select, step_name, function_name, str(source))
    elif name is not None:
        raise files.InputError(
            f"--name: {source} gets no copy, as it belongs to no package or has the step already"
        )
    else:
        changed = append.append_step(text, str(source), step_name, function_name)
    if not write:
        click.echo(changed, nl=False)
    elif changed == text:
        click.echo(f"{source}: already has the step", err=True)
    else:
        _write(source, changed)
        click.echo(f"{source}: step {step_name} added", err=True)
    return None


def _copy(
    composition: files.Document,
    name: str | None,
    select: str,
    step: str,
    function: str,
    where: str,
) -> str:
    """Return the copy of a packaged Composition and its admission policy as a YAML stream."""
    original = access.text(composition, "metadata", "name")
    made = packaged.copied(composition, name or f"{original}-kv-offload", step, function, where)
    if made["metadata"]["name"] == original:
        raise files.InputError(f"--name: the copy needs another name than {original}")
    documents = [made]
    if select == POLICY:
        documents += packaged.selection(made, original)
    else:
        click.echo(
            f"Note: set spec.crossplane.compositionRef.name: {made['metadata']['name']} in every"
            " composite. Otherwise Crossplane picks one of the two Compositions at random.",
            err=True,
        )
    return emit.to_yaml(documents)


def _rebuild(source: Path, folder: Path, kind: str, step: str, function: str) -> None:
    root = packaged.rebuilt(source, kind, step, function)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise files.InputError(f"{folder}: {error.strerror or error}") from error
    for file, text in root.items():
        _write(folder / file, text)
    click.echo(
        f"{folder}: step {step} added. Build it with `crossplane xpkg build --package-root"
        f" {folder}`, push it under your own address, and install that.",
        err=True,
    )


def _note_modelplane(composition: files.Document) -> None:
    if access.text(composition, "spec", "compositeTypeRef", "kind") == "ModelDeployment":
        click.echo(
            "Note: with Modelplane, pods are composed by ModelReplica. Add the step to its"
            " Composition; in ModelDeployment's it only repeats the replicas' conditions.",
            err=True,
        )


def _read(path: Path) -> str:
    """Return the text with its own line ends."""
    text = files.read_text(path)  # the errors for people
    return text if str(path) == "-" else path.read_bytes().decode()


def _write(path: Path, text: str) -> None:
    try:
        path.write_bytes(text.encode())
    except OSError as error:
        raise files.InputError(f"{path}: {error.strerror or error}") from error
