"""A gang of several templates: what is wrong with each is said at once, with its own path."""

import pytest

from function.problems import Refused
from tests.corpus import judged

SHM = {"name": "dshm", "emptyDir": {"medium": "Memory", "sizeLimit": "1Gi"}}
LEADER = "vllm serve org/m --tensor-parallel-size 8 --nnodes 2 --node-rank 0 --master-addr $A"
WORKER = LEADER.replace("rank 0", "rank 1") + " --headless"


def template(command: str, volumes: list[dict]) -> dict:
    mounts = [{"name": each["name"], "mountPath": "/dev/shm"} for each in volumes]
    container = {
        "name": "engine",
        "image": judged.NEWEST["vLLM"][1],
        "command": ["sh", "-c", command],
        "resources": {"limits": {"nvidia.com/gpu": "4"}},
        "volumeMounts": mounts,
    }
    return {"metadata": {}, "spec": {"containers": [container], "volumes": volumes}}


def gang(leader: list[dict], worker: list[dict]) -> dict:
    templates = {
        "size": 2,
        "leaderTemplate": template(LEADER, leader),
        "workerTemplate": template(WORKER, worker),
    }
    return {
        "apiVersion": "leaderworkerset.x-k8s.io/v1",
        "kind": "LeaderWorkerSet",
        "metadata": {"name": "chat"},
        "spec": {"leaderWorkerTemplate": templates},
    }


AT = "spec.leaderWorkerTemplate.{}Template.spec.volumes[dshm].emptyDir.sizeLimit: /dev/shm is"
CASES = {
    "both": ([SHM], [SHM], ["leader", "worker"]),
    "the worker": ([], [SHM], ["worker"]),
}


@pytest.mark.parametrize("case", CASES)
def test_every_template_that_is_wrong_is_named(case: str) -> None:
    leader, worker, named = CASES[case]
    with pytest.raises(Refused) as refused:
        judged.wired(gang(leader, worker), judged.planned("Native"))
    told = [role for role in ("leader", "worker") if AT.format(role) in str(refused.value)]
    assert told == named, str(refused.value)
