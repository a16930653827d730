"""LMCache's server on the node, and the levels below its memory."""

from tests.serve import standins
from tests.serve.pairs.running import GIB, Running


class NodeServer(Running):
    """The agent alone, its memory cut to a gibibyte, or to what a test says."""

    def start(self) -> None:
        self.begin("agent")
        self.parts["agent"].wait_ready(120)

    def begin(self, part: str) -> None:
        emitted = self.manifest("DaemonSet", part)["spec"]["template"]
        template = self.site.stand_in(standins.SHARED_MEMORY, emitted)
        sizes = {"--l1-size-gb": f"{self.memory / GIB:g}", "--l1-init-size-gb": "1"}
        self.parts[part] = self.site.start(template, part, sizes=sizes, restart=True)
        self.service(self.declared.manifests[-1]["metadata"]["name"], self.parts[part])
