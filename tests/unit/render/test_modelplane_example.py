"""The Modelplane example: its tier runs on the nodes of Modelplane's engines."""

from pathlib import Path

from kv_offload.render import files

ROOT = Path(__file__).parents[3]
FOLDER = ROOT / "example" / "modelplane"


def test_replica_is_wired_to_the_tier_of_the_example() -> None:
    tier = files.load_one(FOLDER / "tier.yaml", "tier")
    looked_up = {d["kind"]: d for d in files.load(FOLDER / "required" / "control-plane.yaml")}
    assert looked_up["KVOffloadTier"]["spec"] == tier["spec"]
    assert looked_up["InferenceCluster"]["metadata"] == tier["spec"]["inferenceClusterRef"]
    replica = files.load_one(FOLDER / "modelreplica.yaml", "replica")
    assert replica["metadata"]["namespace"] in tier["spec"]["allowedNamespaces"]["names"]


def test_agents_run_on_every_engine_node() -> None:
    tier = files.load_one(FOLDER / "tier.yaml", "tier")["spec"]
    (step,) = (d for d in files.load(FOLDER / "step.yaml") if d["kind"] == "Object")
    engine = step["spec"]["forProvider"]["manifest"]["spec"]["template"]["spec"]
    assert tier["nodes"]["selector"].items() <= engine["nodeSelector"].items()
    keys = {t["key"] for t in tier["nodes"]["tolerations"]}
    assert {t["key"] for t in engine["tolerations"]} <= keys
