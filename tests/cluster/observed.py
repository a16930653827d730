"""What an observer writes: pods run no program here, so tests write its ConfigMap."""

from programs.observer.judge import Memory
from programs.observer.report import Engine, report, text
from tests.cluster.documents import AGENTS_NAMESPACE, FIRST
from tests.cluster.expect import Fleet
from tests.cluster.rig.kube import Manifest

MODEL = "Qwen/Qwen3-32B"


def write(
    world: Fleet,
    of: Manifest,
    state: str,
    cause: str = "",
    model: str = MODEL,
    **shares: str,
) -> None:
    """Write what a tier's observer writes when one engine is in a state."""
    engine = Engine("default", "10.1.2.3", "vLLM", model, Memory(state=state, cause=cause))
    api = world.rig.workload(FIRST).api
    start = f"kv-{of['metadata']['name']}-"
    maps = api.list("v1", "ConfigMap", AGENTS_NAMESPACE)
    (found,) = (m for m in maps if m["metadata"]["name"].startswith(start))
    api.patch(found, {"data": {"state": text(report([engine], {}, shares))}})
