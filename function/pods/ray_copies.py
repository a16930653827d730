"""Several engines that Ray may put into one pod: models of a cluster, replicas of Ray Serve."""

from collections.abc import Sequence

from function.contract.engine import Engine
from function.contract.injection import Injection
from function.engines import ranks
from function.pods.gang import Pod
from function.problems import Refused
from function.reasons import Reason
from function.workloads.model import SERVE


def several_models(pods: Sequence[Pod]) -> list[Refused]:
    """Return the refusal of several models in one Ray cluster: what its pods get is for one."""
    entries = [pod.template.path for pod in pods if pod.template.kind == SERVE]
    if len(entries) < 2:
        return []
    message = (
        f"it is one of {len(entries)} models in one Ray cluster, which may share a pod, and what "
        "the pods get is for one. Give each model a RayService of its own"
    )
    return [Refused(Reason.ENGINE_UNSUPPORTED, message, entries[1])]


def unknown(engine: Engine, injection: Injection) -> list[str]:
    """Return a note where the memory is for one engine, and Ray Serve may start more in a pod."""
    memory = injection.memory_bytes or injection.storage_bytes or injection.shm
    if engine.pod_gpus or not memory:
        return []
    return [
        "how many engines Ray Serve starts in one pod is not known, and the memory is for one: set "
        "deployment_config.num_replicas (or autoscaling_config.max_replicas), or "
        "rayStartParams.num-gpus"
    ]


def check_ports(engine: Engine, injection: Injection) -> None:
    """Raise Refused where several engines of Ray Serve in one pod would listen at one port."""
    several = ranks.engines(engine) > ranks.replicas(engine)
    if injection.ports and (several or (engine.copies is None and not engine.pod_gpus)):
        port = injection.ports[0]
        raise Refused(
            Reason.ENGINE_UNSUPPORTED,
            "Ray Serve may start several engines in one pod, and each would listen at port "
            f"{port['containerPort']} ({port['name']}). Set deployment_config.num_replicas to 1, "
            "give a pod the GPUs of one engine, or use a tier without ports in engines",
        )
