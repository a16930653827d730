"""Read a control plane through the user's own kubectl: its contexts, credentials and proxies."""

import json
import shutil
import subprocess
from collections.abc import Iterable
from typing import Any

from kv_offload.render.files import InputError

Document = dict[str, Any]

# What says which composites there are, and whether our step runs for them.
XRDS = "compositeresourcedefinitions.apiextensions.crossplane.io"
TIERS = "kvoffloadtiers.modelplane.ai"
USAGES = "usages.protection.crossplane.io"


def read(kinds: Iterable[str], context: str = "") -> list[Document]:
    """Return all objects of these kinds (plural.group), of every namespace, and all composites.

    A kind that the API server does not have has none. `context`: of the kubeconfig, "" for its
    current one. Raise InputError where kubectl is missing or refused.
    """
    there = set(_run(["api-resources", "--verbs=list", "--output=name"], context).split())
    if XRDS not in there:
        raise InputError("this cluster has no Crossplane: choose the control plane by --context")
    definitions = _list([XRDS], context)
    composites = {
        f"{each['spec']['names']['plural']}.{each['spec']['group']}" for each in definitions
    }
    return definitions + _list(sorted((composites | set(kinds)) & there - {XRDS}), context)


def _list(kinds: list[str], context: str) -> list[Document]:
    items: list[Document] = []
    if kinds:
        text = _run(["get", "--all-namespaces", "--output=json", ",".join(kinds)], context)
        items = json.loads(text)["items"]
    return items


def _run(arguments: list[str], context: str) -> str:
    program = shutil.which("kubectl")
    if program is None:
        raise InputError("kubectl is not on the path: install it, or give files")
    chosen = [f"--context={context}"] if context else []
    done = subprocess.run([program, *chosen, *arguments], capture_output=True, text=True)
    if done.returncode:
        raise InputError(f"kubectl {arguments[0]}: {done.stderr.strip()}")
    return done.stdout
