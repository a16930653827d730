from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from function.kube import quantity

PARSED = {
    "0": 0,
    "1": 1,
    "1.5": Decimal("1.5"),
    "100m": Decimal("0.1"),
    "5n": Decimal("5E-9"),
    "1k": 1000,
    "128974848": 128974848,
    "129M": 129_000_000,
    "123Mi": 123 * 1024**2,
    "1.5Gi": 3 * 1024**3 // 2,
    "2Ei": 2 * 1024**6,
    "1e3": 1000,
    "1E3": 1000,
    "1E": 10**18,
    ".5": Decimal("0.5"),
    "5.": 5,
    "+1Gi": 1024**3,
    "-1": -1,
}


@pytest.mark.parametrize("text", PARSED)
def test_quantities_are_parsed(text):
    assert quantity.parse(text) == PARSED[text]


@pytest.mark.parametrize("number", [4, 4.0, 0.5])
def test_yaml_numbers_are_parsed(number):
    assert quantity.parse(number) == Decimal(str(number))


BAD = ["", "Gi", "1Zi", "1 Gi", "1gb", "1KI", "one", "1e", None, True, [], "1Gi\n", "\u0661"]


@pytest.mark.parametrize("text", BAD)
def test_invalid_quantities_are_refused(text):
    with pytest.raises(ValueError, match="is not a Kubernetes quantity"):
        quantity.parse(text)


@given(st.integers(min_value=0, max_value=2**62))
def test_formatted_bytes_parse_equal(size):
    assert quantity.parse(quantity.format_bytes(size)) == size


@pytest.mark.parametrize(
    ("text", "size", "wanted"),
    [
        ("10Gi", 1024**3, "11Gi"),
        ("1500M", 0, "1500000000"),
        ("1.5", 1, "3"),
        ("1Gi", 1, "1073741825"),
    ],
)
def test_add_bytes(text, size, wanted):
    assert quantity.add_bytes(text, size) == wanted
