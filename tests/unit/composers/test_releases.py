"""Pods that a release wired are not rolled by this function, nor is what they mount changed.

The rule, whatever this function writes into *new* pods: a workload that is observed wired, and
whose template is what it was, stays byte for byte, its record included. So it does where the tier
is ready (wired again from it, or from the record), where it is not, and where it is gone.
"""

import json

import pytest

from function.kube import objects
from function.pods import record
from tests.unit.composers import release
from tests.unit.composers.calls import Document
from tests.unit.composers.release import Fixture

RECORD = "modelplane.ai/kv-offload-record"  # where it stands is as frozen as what it says

# What is frozen. A digest here never changes: a fixture that no longer holds shows a defect.
FROZEN = {"0.1": "8cd207ae046b3e106575dba2739dbf1927ebe2479a4530f8bd54c1c44f2ed87e"}

FIXTURES = release.fixtures()
each_fixture = pytest.mark.parametrize("was", FIXTURES, ids=lambda was: f"{was.version}-{was.name}")


def _text(document: Document) -> str:
    return json.dumps(document, sort_keys=True, indent=1)


def _record(document: Document) -> str:
    return document.get("metadata", {}).get("annotations", {}).get(RECORD, "")


@pytest.mark.parametrize("tier", ["ready", "not ready", "gone"])
@each_fixture
def test_pods_of_a_release_stay_unchanged(was: Fixture, tier: str) -> None:
    got = was.reconciled(tier).desired
    for key, document in was.wired.items():
        if key in was.desired:
            # An earlier step's: all of it is theirs or ours in the pods.
            assert _text(got[key]) == _text(document), key
        else:
            # Composed by us: how it is applied and watched may change, what runs may not.
            assert _text(objects.unwrap(got[key])) == _text(objects.unwrap(document)), key
            assert _record(got[key]) == _record(document), key


@each_fixture
def test_record_of_a_release_loads_unchanged(was: Fixture) -> None:
    texts = [text for document in was.wired.values() if (text := _record(document))]
    assert texts
    for text in texts:
        found, why = record.load(text)
        assert found is not None, why
        assert found.text == text


@each_fixture
def test_fixture_is_wired(was: Fixture) -> None:
    """But for Optional's choice, which is to stay as the author wrote it."""
    for key, document in was.desired.items():
        manifests = [objects.unwrap(one) for one in (document, was.wired[key])]
        assert (manifests[0] == manifests[1]) == (was.name == "optional-unwired"), key


def test_frozen_files_keep_their_digest() -> None:
    assert {was.version for was in FIXTURES} == set(FROZEN)
    assert {version: release.digest(version) for version in FROZEN} == FROZEN
