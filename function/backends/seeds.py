"""A cache identity as a hash seed, where the names of blocks have no other place for it."""

import hashlib

from function.contract.events import SEED

__all__ = ["SEED", "of_identity"]


def of_identity(identity: str) -> str:
    """PYTHONHASHSEED: 32 bits of the identity, as many as Python takes."""
    digest = hashlib.sha256(identity.encode()).digest()
    return str(int.from_bytes(digest[:4], "big"))
