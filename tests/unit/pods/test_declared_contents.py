"""The annotations that declare what an image holds and what a model is."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from function.contract.packages import STATED, Fact
from function.contract.stock_images.declared import written
from function.pods.declared import model_family, packages
from function.problems import Refused
from function.reasons import Reason


def fact(*versions):
    return Fact(versions, STATED, "annotation", declared=True)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("lmcache=0.5.6", {"lmcache": fact("0.5.6")}),
        ("lmcache=0.5.6,mooncake=0.3.13", {"lmcache": fact("0.5.6"), "mooncake": fact("0.3.13")}),
        (" lmcache = v0.5.6 , torch==2.13.0+cu130 ",
         {"lmcache": fact("0.5.6"), "torch": fact("2.13.0+cu130")}),
        ("mooncake-transfer-engine-cuda13=0.3.13.post1", {"mooncake": fact("0.3.13.post1")}),
        ("nixl_cu13=1.5.0,nixl=1.5.0", {"nixl": fact("1.5.0")}),
        ("lmcache=none,cuda=13.0,", {"lmcache": fact(), "cuda": fact("13.0")}),
    ],
)  # fmt: skip
def test_valid_packages_are_parsed(value, expected):
    assert packages(value) == expected
    assert packages(written(expected)) == expected


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("", "no package in ''; write, for example, lmcache=0.5.6,mooncake=none"),
        ("lmcache", "'lmcache' is not NAME=VERSION with a name of lmcache, mooncake, nixl, torch, "
         "cuda, python, such as lmcache=0.5.6"),
        ("lmcash=0.5.6", "'lmcash=0.5.6' is not NAME=VERSION"),
        ("lmcache=new", "'lmcache=new': 'new' is not a version, such as 0.5.6, and not none"),
        ("lmcache=", "'lmcache=': '' is not a version"),
        ("lmcache=0.5.5,lmcache=0.5.6", "lmcache is given twice, and differs"),
        ("lmcache=1," * 20, "21 packages; at most 16"),
    ],
)  # fmt: skip
def test_invalid_packages_are_refused(value, message):
    with pytest.raises(Refused) as found:
        packages(value)
    assert found.value.reason == Reason.INVALID_INPUT
    assert message in found.value.message
    assert found.value.path == "metadata.annotations[modelplane.ai/kv-offload-packages]"


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("hybrid", {"hybrid"}),
        ("Dense", {"dense"}),
        ("mla, multimodal,", {"mla", "multimodal"}),
    ],
)
def test_valid_model_family_is_parsed(value, expected):
    assert model_family(value) == expected


@pytest.mark.parametrize("value", ["", ",", "mamba", "hybrid,mamba", "unknown"])
def test_invalid_model_family_is_refused(value):
    with pytest.raises(Refused) as found:
        model_family(value)
    assert found.value.reason == Reason.INVALID_INPUT
    assert "is not one of dense, hybrid, mla, sparse, sliding, multimodal" in found.value.message
    assert found.value.path == "metadata.annotations[modelplane.ai/kv-offload-model-family]"


@given(st.text("lmcachenonemooncake=,.0123456789 -_", max_size=60))
def test_any_value_parses_or_raises_invalid_input(value):
    for reader in (packages, model_family):
        try:
            reader(value)
        except Refused as refused:
            assert refused.reason == Reason.INVALID_INPUT and refused.message
