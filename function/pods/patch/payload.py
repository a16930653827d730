"""Packages of a payload image, in front of those that the engine's own image holds.

An init container copies them into an emptyDir; the engine's container alone mounts it, read-only,
and finds it first on its path. The image's own files stay as they are.
"""

from dataclasses import replace

from function.contract.injection import Injection, Json
from function.pods.patch import waits
from function.pods.patch.draft import Draft, conflict
from function.pods.patch.env import literals

NAME = "kv-offload-payload"
PATH = "/opt/kv-offload-payload"
_SEARCH_PATH = "PYTHONPATH"
# A node counts more than the files: directories, and whole blocks of its file system. It evicts a
# pod above its limit; this much, and a tenth of the size, is added.
_MARGIN = 16 * 2**20


def merge(draft: Draft, payload: Json | None) -> None:
    """Add the init container. Its arguments name the image too, for its messages and the record."""
    if payload is None:
        return
    _check_path(draft, payload)
    copies = {
        "name": NAME,
        "image": payload["image"],
        "args": [payload["image"], PATH, *payload["names"]],
        "volumeMounts": [{"name": NAME, "mountPath": PATH}],
        **waits.hardened(draft),
    }
    waits.add(draft, copies, "copies packages of its payload")


def _check_path(draft: Draft, payload: Json) -> None:
    """Raise PodConflict where folders of the user's come first: packages there would be loaded."""
    wanted = [f"{PATH}/{name}" for name in payload["names"]]
    found = str(literals(draft.container).get(_SEARCH_PATH) or "").split(":")
    if found[: len(wanted)] != wanted:
        raise conflict(
            f"{found[0] or 'an empty folder'} is searched before the packages of the payload; "
            f"begin the value with {':'.join(wanted)}, or remove the variable",
            draft.at(f"env[{_SEARCH_PATH}]"),
        )


def with_volume(injection: Injection) -> Injection:
    """Return the injection with the payload's volume, mount and search path."""
    payload = injection.payload
    if payload is None:
        return injection
    size = payload["bytes"] + payload["bytes"] // 10 + _MARGIN
    folders = [f"{PATH}/{name}" for name in payload["names"]]
    own = injection.search_paths.get(_SEARCH_PATH)
    paths = ":".join([*folders, *([own] if own else [])])
    return replace(
        injection,
        volumes=(
            *injection.volumes,
            {"name": NAME, "emptyDir": {"sizeLimit": f"{-(-size // 2**20)}Mi"}},
        ),
        mounts=(*injection.mounts, {"name": NAME, "mountPath": PATH, "readOnly": True}),
        search_paths={**injection.search_paths, _SEARCH_PATH: paths},
        storage_bytes=injection.storage_bytes + size,
    )
