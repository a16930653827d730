"""Very long texts in a pod cost no more than reading them once."""

import time

import pytest

from function import names
from tests.unit.composers import documents as d
from tests.unit.composers.calls import call

ENGINE = "model-serving-main"
ANNOTATIONS = names.USER_ANNOTATIONS
TEXTS = ("a-", "a.", "1.", "token ", "eyJ-", "a=1,", "\\x1f", "é")
SIZE, SECONDS, LONGEST = 256 * 1024, 1.0, 16 * 1024


@pytest.mark.parametrize("fragment", TEXTS)
@pytest.mark.parametrize("name", ANNOTATIONS)
def test_long_annotation_is_refused_quickly(name: str, fragment: str) -> None:
    annotations = {names.ANNOTATION_TIER: "chat", name: fragment * (SIZE // len(fragment)) + "!"}
    started = time.process_time()
    got = call(
        d.replica(),
        desired={ENGINE: d.engine(annotations)},
        required=d.requirements(d.ready_tier()),
    )
    assert time.process_time() - started < SECONDS
    assert got.conditions["KVOffloadReady"] == ("False", "InvalidInput")
    assert "characters; at most 1024 are read" in got.messages["KVOffloadReady"]
    assert len(got.messages["KVOffloadReady"]) < LONGEST


@pytest.mark.parametrize("fragment", TEXTS)
@pytest.mark.parametrize("place", ("image", "args"))
def test_long_image_or_argument_is_decided_quickly(place: str, fragment: str) -> None:
    text = fragment * (SIZE // len(fragment)) + "!"
    pod = d.engine(image=text) if place == "image" else d.engine(args=[d.MODEL, f"--{text}", text])
    started = time.process_time()
    got = call(d.replica(), desired={ENGINE: pod}, required=d.requirements(d.ready_tier()))
    assert time.process_time() - started < SECONDS
    assert len(got.messages["KVOffloadReady"]) < LONGEST
