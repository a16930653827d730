"""The checkouts of Modelplane that the suite goes with: a commit, and what its files hold."""

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path

# What of a checkout runs or is read here.
FOLDERS = (
    "apis",
    "docs/manifests",
    "e2e/manifests",
    "functions/compose-model-deployment/function",
    "functions/compose-model-replica/function",
    "schemas/python/models",
)
# What the rig (rig/) runs beside that: whole folders of functions.
RIG_FOLDERS = tuple(
    f"functions/compose-{name}/function"
    for name in ("inference-class", "inference-cluster", "model-endpoint", "usages")
)
# In these a ModelDeployment is looked for; the README's is the one of its first page.
MANIFESTS = ("docs/manifests", "e2e/manifests", "README.md")
REPOSITORY = "https://github.com/modelplaneai/modelplane"


@dataclass(frozen=True)
class Pin:
    """`digest`: of FOLDERS and the README. `ref`: what to fetch. `spec`: of clusters there.
    `rig`: digest of RIG_FOLDERS; "": this checkout does not run on the rig.
    """

    name: str
    commit: str
    ref: str
    digest: str
    deployments: int
    spec: tuple[tuple[str, str], ...] = ()
    rig: str = ""


PINS = (
    Pin(
        "v0.3.1",
        "a652a80bc97d0f76680343ee76b0ba03071bb3fd",
        "v0.3.1",
        "b2a5e032abc8e52c1f453bb54bd26c0bd35ca8ca379ebb9b96bfac07f4f61c5a",
        27,
        rig="047811858ff2b2f9747aae4aef9e8c8e17b5566ea8a883974c8144396cf92375",
    ),
    Pin(
        "pr-406",
        "a3a11bc5acb10cfc74d9098e77efac4a81133095",
        "refs/pull/406/head",
        "1974216deb28f18b4716ec1282a5a6bd9d115e7672ecfa9fab2c3931a80e2823",
        27,
        (("stack", "Dynamo"),),
    ),
)


class WrongCheckout(Exception):
    """The folder is not one of the pinned checkouts; the message says what to do."""


def how() -> str:
    """How to get a checkout that fits."""
    pin = PINS[0]
    return (
        f"git clone --depth 1 --branch {pin.ref} {REPOSITORY} DIR && make modelplane MODELPLANE=DIR"
    )


def find(folder: Path) -> Pin:
    """The pin of a checkout. Raises WrongCheckout."""
    missing = [name for name in FOLDERS if not (folder / name).is_dir()]
    if missing:
        raise WrongCheckout(f"{folder} has no {missing[0]}: it is no Modelplane. {how()}")
    found = digest(folder)
    for pin in PINS:
        if pin.digest == found:
            return pin
    known = ", ".join(f"{pin.name} ({pin.commit[:8]})" for pin in PINS)
    raise WrongCheckout(
        f"{folder} holds files of digest {found}, which is none of {known}. {how()}"
    )


def check_rig(folder: Path) -> None:
    """Whether the rig may run a checkout. Raises WrongCheckout."""
    pin = find(folder)
    found = digest(folder, RIG_FOLDERS)
    if found != pin.rig:
        raise WrongCheckout(
            f"{folder} ({pin.name}) holds functions of digest {found}, and the rig runs"
            f" {pin.rig or 'none of it'}. {how()}"
        )


def digest(folder: Path, folders: tuple[str, ...] = FOLDERS) -> str:
    """One digest of every path and text below some folders, and of the README."""
    paths = [folder / "README.md"]
    for name in folders:
        paths += (path for path in (folder / name).rglob("*") if path.is_file())
    total = hashlib.sha256()
    for path in sorted(p for p in paths if not re.search(r"/__pycache__/|\.pyc$", p.as_posix())):
        text = hashlib.sha256(path.read_bytes()).hexdigest()
        total.update(f"{path.relative_to(folder).as_posix()} {text}\n".encode())
    return total.hexdigest()
