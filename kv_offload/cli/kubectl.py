"""Read a control plane through the user's own kubectl: its contexts, credentials and proxies."""

import json
import shutil
import subprocess
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any

import click

from kv_offload.render.files import InputError

Document = dict[str, Any]

# What says which composites there are, and whether our step runs for them.
XRDS = "compositeresourcedefinitions.apiextensions.crossplane.io"
TIERS = "kvoffloadtiers.modelplane.ai"
USAGES = "usages.protection.crossplane.io"

contexts = click.option(
    "--context",
    "contexts",
    multiple=True,
    help="Context of the kubeconfig; more than once for several.  [default: the current]",
)


def one_source(documents: Collection[Path], contexts: Collection[str]) -> None:
    """Raise a UsageError where documents are given and a control plane is named too."""
    if documents and contexts:
        raise click.UsageError("--context asks a control plane: it takes no documents")


def read(
    kinds: Iterable[str], context: str = "", quiet: bool = False
) -> tuple[list[Document], bool]:
    """Return all objects of these kinds (plural.group) and all composites, and if these are all.

    They are not where kubectl failed for some: what is not allowed is not seen.

    A kind that the API server does not have has none. `context`: of the kubeconfig, "" for its
    current one, which is named on stderr unless `quiet`. Raise InputError where kubectl is missing
    or refused.
    """
    # A pod with a service account has no context, and needs none.
    name = context or _run(["config", "view", "--output=jsonpath={.current-context}"])[0].strip()
    if not quiet:
        click.echo(f"Reading the control plane of context {name or '(none)'}.", err=True)
    chosen = [f"--context={name}"] if name else []
    # It lists what it can where an aggregated API is down, and then fails.
    listed = [*chosen, "api-resources", "--verbs=list", "--output=name"]
    there = set(_run(listed, accepts=XRDS)[0].split())
    if XRDS not in there:
        raise InputError("this cluster has no Crossplane: choose the control plane by --context")
    definitions, _ = _list([XRDS], chosen)
    composites = {f"{d['spec']['names']['plural']}.{d['spec']['group']}" for d in definitions}
    found, complete = _list(sorted((composites | set(kinds)) & there - {XRDS}), chosen)
    return definitions + found, complete


def _list(kinds: list[str], chosen: list[str]) -> tuple[list[Document], bool]:
    if not kinds:
        return [], True
    # Where one kind is forbidden, kubectl lists the others, says so, and fails.
    arguments = [*chosen, "get", "--all-namespaces", "--output=json", ",".join(kinds)]
    text, complete = _run(arguments, accepts='"items"')
    return json.loads(text)["items"], complete


def _run(arguments: list[str], accepts: str = "") -> tuple[str, bool]:
    """Return what kubectl prints, and whether it succeeded; its errors go to stderr as they come.

    `accepts`: a text with which the output counts, although kubectl failed.
    """
    program = shutil.which("kubectl")
    if program is None:
        raise InputError("kubectl is not on the path: install it, or give files")
    done = subprocess.run([program, *arguments], stdout=subprocess.PIPE, text=True)
    if done.returncode and not (accepts and accepts in done.stdout):
        raise InputError(f"kubectl {' '.join(arguments)} failed with exit code {done.returncode}")
    return done.stdout, not done.returncode
