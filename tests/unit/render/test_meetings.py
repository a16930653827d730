"""Tiers in files, or on a control plane, that meet on one cluster: `validate`, `plan`, `doctor`."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from kv_offload.cli import main
from kv_offload.render import doctor, meetings, plan
from kv_offload.render.effects import Verb
from tests.unit.composers import documents as d
from tests.unit.composers.test_tier_conflicts import with_disk

Document = dict[str, Any]
A, B = "modelplane-system/a", "modelplane-system/b"
_FIELD = "spec.lmcache.l2[0].disk.hostPath.path"
SAID = f"host directory /mnt/kv: {A} ({_FIELD}) and {B} ({_FIELD})"


def at(name: str, cluster: str, path: str = "/mnt/kv") -> Document:
    return with_disk(name, path, inferenceClusterRef={"name": cluster})


def over(name: str, path: str = "/mnt/kv", **labels: str) -> Document:
    made = with_disk(name, path, clusterSelector={"matchLabels": labels})
    del made["spec"]["inferenceClusterRef"]
    return made


def cluster(name: str, **labels: str) -> Document:
    document = d.cluster(name)
    document["metadata"]["labels"] = labels
    return document


def child_of(fleet: str, document: Document) -> Document:
    document["metadata"]["labels"] = {"modelplane.ai/kv-offload-fleet": fleet}
    return document


UNSURE = f"{SAID} would meet where both selectors match; give the InferenceClusters to be sure."
# name: documents -> what is said
GIVEN: dict[str, tuple[list[Document], list[str]]] = {
    "one cluster": ([at("a", "eu"), at("b", "eu")], [f"{SAID} meet on eu."]),
    "two clusters": ([at("a", "eu"), at("b", "us")], []),
    "a fleet and a tier": (
        [over("a", gpu="h200"), at("b", "eu"), cluster("eu", gpu="h200"), cluster("us", gpu="b")],
        [f"{SAID} meet on eu."],
    ),
    "two fleets": (
        [over("a", gpu="h200"), over("b"), cluster("eu", gpu="h200"), cluster("us", gpu="h200")],
        [f"{SAID} meet on eu, us."],
    ),
    "two fleets apart": (
        [over("a", gpu="h200"), over("b", gpu="b200"), cluster("eu", gpu="h200")],
        [],
    ),
    "two fleets, no cluster": ([over("a", gpu="h200"), over("b", zone="eu")], [UNSURE]),
    "two fleets apart, no cluster": ([over("a", gpu="h200"), over("b", gpu="b200")], []),
    "a fleet and its child": (
        [over("b", gpu="h200"), child_of("b", at("b-eu", "eu")), cluster("eu", gpu="h200")],
        [],
    ),
}


@pytest.mark.parametrize("name", GIVEN)
def test_tiers_in_files_that_meet(name: str) -> None:
    documents, said = GIVEN[name]
    assert [each.message for each in meetings.conflicts(documents)] == said
    assert [each.message for each in meetings.conflicts(documents[::-1])] == said


def test_validate_refuses_the_second_tier_by_name(tmp_path: Path) -> None:
    tiers = [at("b", "eu"), at("a", "eu"), at("c", "us")]
    for tier in tiers:
        name = tier["metadata"]["name"]
        (tmp_path / f"{name}.yaml").write_text(yaml.safe_dump(tier))
    got = CliRunner().invoke(main, ["validate", str(tmp_path), "-o", "json"])
    assert got.exit_code == 1
    rows = {row["name"]: (row["valid"], row["lines"]) for row in json.loads(got.output)["tiers"]}
    assert rows[A][0] and rows["modelplane-system/c"][0]
    assert rows[B] == (False, [f"conflict: {SAID} meet on eu."])


def test_validate_reads_the_clusters_of_fleets(tmp_path: Path) -> None:
    for name, document in {
        "a.yaml": over("a", gpu="h200"),
        "b.yaml": over("b", zone="eu"),
        "clusters.yaml": cluster("eu", gpu="h200"),
    }.items():
        (tmp_path / name).write_text(yaml.safe_dump(document))
    got = CliRunner().invoke(main, ["validate", str(tmp_path), "-o", "json"])
    assert got.exit_code == 0, got.output
    none = "warning: spec.clusterSelector.matchLabels: none of the given InferenceClusters carries"
    rows = {row["name"]: row["lines"] for row in json.loads(got.output)["tiers"]}
    assert f"{none} these labels" in rows[B]
    assert not [line for line in rows[A] if line.startswith(none)]


def test_plan_names_the_tier_that_the_edit_conflicts_with() -> None:
    now, new = at("a", "eu", "/mnt/own"), at("a", "eu")
    found = plan.plan(now, new, [now, at("b", "eu"), at("c", "us")], "tier.yaml")
    (effect,) = (each for each in found if each.verb is Verb.CONFLICTS)
    assert (effect.what, effect.why) == (B, f"{SAID} meet on eu.")
    fine = plan.plan(now, at("a", "eu", "/mnt/more"), [at("b", "eu")], "tier.yaml")
    assert not [each for each in fine if each.verb is Verb.CONFLICTS]


def test_doctor_names_the_conflict_on_a_cluster() -> None:
    found = doctor.examine([at("a", "eu"), at("b", "eu"), at("c", "us")], "function-kv-offload")
    (finding,) = (each for each in found.findings if each.subject.startswith("InferenceCluster"))
    assert finding.is_problem and finding.subject == "InferenceCluster eu"
    assert finding.message == f"two tiers cannot have the same: {SAID}. Change or remove one."
