"""Crossplane is upgraded under tiers and engines that run: no pod rolls, no Object is made anew.

From the oldest core that is supported to the newest, so only `make e2e-oldest` takes this group.
provider-kubernetes has one version here: of the next one the proxy lacks modules.
"""

from tests.cluster.expect import Fleet
from tests.cluster.rig import crossplane
from tests.cluster.rig.crds import install_crds
from tests.cluster.test_60_faults import CHAT, QWEN, SETTLED_SECONDS, reconciles, state
from tests.tools.find import module_dir, require

NEWEST = "core"


def test_core_is_upgraded_under_running_engines(world: Fleet):
    core = world.rig.parts.parts["core"]
    with world.applied(CHAT, QWEN):
        for document in (CHAT, QWEN):
            world.until_ready(document, limit=SETTLED_SECONDS)
        before = state(world)
        core.stop()
        crds = module_dir(NEWEST, crossplane.MODULE) / "cluster" / "crds"
        install_crds(world.api, crds.glob("*.yaml"))
        core.argv = [str(require(NEWEST)), *core.argv[1:]]
        core.start()
        core.wait()
        reconciles(world, "a-newer-core")
        for document in (CHAT, QWEN):
            world.touch(document)
            world.until_ready(document, limit=SETTLED_SECONDS)
        assert world.condition(QWEN, "KVOffloadReady") == ("True", "Wired")
        assert state(world) == before
