"""Digests of several parts: no two lists have one, and those of plain parts never change."""

import hashlib
from itertools import product

from function.kube import naming


def test_plain_parts_keep_the_digest_of_earlier_releases() -> None:
    assert naming.digest("a", "b") == hashlib.sha256(b"a\0b").hexdigest()[:10]
    assert naming.digest("", "") == hashlib.sha256(b"\0").hexdigest()[:10]
    assert naming.digest("x") == hashlib.sha256(b"x").hexdigest()[:10]


def test_parts_with_nul_have_digests_of_their_own() -> None:
    parts = ("", "a", "\0", "a\0", "\0a", '["a\\u0000"]', "\xff")
    lists = [each for size in range(1, 4) for each in product(parts, repeat=size)]
    found = {naming.digest(*each, length=64) for each in lists}
    assert len(found) == len(lists)
