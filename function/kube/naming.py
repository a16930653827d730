"""Names of resources on workload clusters, and of those that core composes.

Names on workload clusters are stable DNS labels without collisions. `child_name` of the SDK neither
lower-cases nor sanitises and cuts at 63; names that become part of Pod, Service and StatefulSet
names must be shorter.
"""

import hashlib
import json
import re

# On a composite: the prefix of the names of everything that it composes.
COMPOSITE_LABEL = "crossplane.io/composite"
# On a composed resource: its key in the desired state.
RESOURCE_NAME = "crossplane.io/composition-resource-name"

_COMPOSED_LIMIT, _COMPOSED_HASH = 63, 12
_NOT_DNS = re.compile(r"[^a-z0-9-]+")


def digest(*parts: str, length: int = 10) -> str:
    """Return the first `length` hex digits of the SHA-256 of the parts, NULs between them.

    Parts that hold a NUL themselves are told apart as JSON, behind a byte that no UTF-8 has.
    """
    joined = "\0".join(parts).encode()
    if joined.count(b"\0") >= max(1, len(parts)):
        joined = b"\xff" + json.dumps(parts).encode()
    return hashlib.sha256(joined).hexdigest()[:length]


def label(*parts: str, unique: tuple[str, ...] = (), limit: int = 40) -> str:
    """Return a DNS label of at most `limit` characters: the parts and a digest.

    The digest is that of `unique`, or else of the parts. It is always there, so that a name never
    changes its form when a sibling appears.
    """
    suffix = digest(*(unique or parts))
    stem = _NOT_DNS.sub("-", "-".join(p for p in parts if p).lower()).strip("-")
    stem = stem[: limit - len(suffix) - 1].rstrip("-")
    if not stem or not stem[0].isalpha():
        stem = ("kv-" + stem)[: limit - len(suffix) - 1].rstrip("-")
    return f"{stem}-{suffix}"


def file_name(stem: str, text: str, extension: str) -> str:
    """Return a file name with the digest of the file's text.

    Engines of one consumer that need different texts do not collide in its ConfigMap, and a pod
    that needs another text gets another path.
    """
    return f"{stem}-{digest(text, length=8)}.{extension}"


def config_key(path: str) -> str:
    """Return the ConfigMap key of the file at a relative path: keys have no slash."""
    return path.replace("/", "_")


def composed(parent: str, parent_uid: str, key: str) -> str:
    """Return the name that core gives a composed resource, at most 63 characters.

    `parent` is cut to fit. Source: crossplane v2.4.0, `internal/names`.
    """
    suffix = hashlib.sha256((parent_uid + key).encode()).hexdigest()[:_COMPOSED_HASH]
    if parent and not parent.endswith("-"):
        parent += "-"
    room = _COMPOSED_LIMIT - _COMPOSED_HASH
    if len(parent) > room:
        parent = parent[:room] if parent[:room].endswith("-") else parent[: room - 1] + "-"
    return parent + suffix
