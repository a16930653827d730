"""A cache identity as a hash seed, where block names have no other place for it."""

import hashlib

from function.contract.events import SEED

__all__ = ["SEED", "seed_from_identity"]


def seed_from_identity(identity: str) -> str:
    """Return a PYTHONHASHSEED: 32 bits of the identity, Python's maximum."""
    digest = hashlib.sha256(identity.encode()).digest()
    return str(int.from_bytes(digest[:4], "big"))
