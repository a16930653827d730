"""LMCache's server on the node, and the levels below its memory."""

from tests.serve import standins
from tests.serve.pairs.running import Running

SIZES = {"--l1-size-gb": "1", "--l1-init-size-gb": "1"}


class NodeServer(Running):
    """The agent alone, its memory cut to a gibibyte."""

    def start(self) -> None:
        self._agent()
        self.parts["agent"].wait_ready(120)

    def _agent(self) -> None:
        emitted = self.manifest("DaemonSet", "agent")["spec"]["template"]
        template = standins.SHARED_MEMORY.apply(emitted)
        self.parts["agent"] = self.site.start(template, "agent", sizes=SIZES, restart=True)
        self.service(self.declared.manifests[-1]["metadata"]["name"], self.parts["agent"])

    def replace(self, part: str) -> None:
        self.site.retire(self.parts.pop(part))
        self._agent()
        self.parts[part].wait_ready(120)
