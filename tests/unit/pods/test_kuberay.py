"""RayClusters whose containers start Ray by KubeRay's own variable."""

import pytest

from function.problems import Refused
from tests.corpus import judged

START = "$KUBERAY_GEN_RAY_START_CMD"
HEAD = "ray start --head; vllm serve o/m --tensor-parallel-size 16"
HEAD += " --distributed-executor-backend ray"


def container(script):
    return {
        "name": "ray",
        "image": "vllm/vllm-openai:v0.32.0",
        "command": ["/bin/bash", "-lc", "--"],
        "args": [script],
        "resources": {"limits": {"nvidia.com/gpu": "8"}},
    }


def cluster(head, worker):
    def group(script):
        template = {"spec": {"containers": [container(script)]}}
        return {"rayStartParams": {}, "template": template}

    workers = [{"groupName": "w", "replicas": 1, **group(worker)}]
    spec = {"headGroupSpec": group(head), "workerGroupSpecs": workers}
    metadata = {"name": "r", "annotations": {"ray.io/overwrite-container-cmd": "true"}}
    return {"apiVersion": "ray.io/v1", "kind": "RayCluster", "metadata": metadata, "spec": spec}


WORKERS = [START, f"exec {START}", f'eval "{START}"', f"ulimit -n 65536 && {START}"]


@pytest.mark.parametrize("worker", WORKERS)
@pytest.mark.parametrize("tier", ["Native", "Mooncake"])
def test_a_worker_of_that_variable_alone_starts_no_engine(tier, worker):
    found = judged.wired(cluster(HEAD, worker), judged.planned(tier))
    assert found is not None
    workers = found.manifest["spec"]["workerGroupSpecs"]
    (kept,) = workers[0]["template"]["spec"]["containers"]
    # Nothing starts there, so nothing of its command changes.
    assert kept["args"] == [worker]
    assert all(e["name"] != "KUBERAY_GEN_RAY_START_CMD" for e in kept.get("env", ()))


def test_a_head_may_start_ray_by_it():
    head = f"ulimit -n 65536; {START} & sleep 10; {HEAD.partition('; ')[2]}"
    assert judged.wired(cluster(head, START), judged.planned("Mooncake"))


def test_another_hidden_command_is_still_refused():
    with pytest.raises(Refused, match="what exec starts is not known"):
        judged.wired(cluster(HEAD, "exec $START_WORKER"), judged.planned("Mooncake"))
