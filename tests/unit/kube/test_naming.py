"""Names on the cluster: valid DNS labels, bounded and unique."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from function.kube import naming

TEXT = st.text(max_size=80)


@given(TEXT, TEXT, st.integers(24, 63))
def test_any_text_becomes_a_dns_label(name, other, limit):
    label = naming.label(name, unique=(name, other), limit=limit)
    assert len(label) <= limit
    assert re.fullmatch(r"[a-z]([a-z0-9-]*[a-z0-9])?", label)


@pytest.mark.parametrize("limit", [40, 63])
def test_tenant_hash_has_forty_bits(limit):
    """With 20 bits, a second name that gives the same label was found in two seconds."""
    label = naming.label("kv", "n" * 80, unique=("ns", "n" * 80), limit=limit)
    assert re.fullmatch(r"kv-n+-[0-9a-f]{10}", label)
    assert len(label) == limit
