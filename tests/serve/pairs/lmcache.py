"""LMCache's server on the node, and the levels below its memory."""

from tests.serve import standins
from tests.serve.pairs.running import GIB, Running


class NodeServer(Running):
    """The agent alone, its memory cut to a gibibyte, or to what a test says. Files of a level lie
    in a folder of the node."""

    def start(self) -> None:
        self.begin("agent")
        self.parts["agent"].wait_ready(120)

    def begin(self, part: str) -> None:
        self.mounted()
        emitted = self.manifest("DaemonSet", part)
        template = self.site.stand_in(standins.SHARED_MEMORY, emitted["spec"]["template"])
        sizes = {"--l1-size-gb": f"{self.memory / GIB:g}", "--l1-init-size-gb": "1"}
        self.parts[part] = self.site.start(template, part, sizes=sizes, restart=True)
        self.service(emitted["metadata"]["name"].removesuffix("-agent"), self.parts[part])


class WithRedis(NodeServer):
    """The same with the Redis that the tier runs below it, cut to a gibibyte."""

    def start(self) -> None:
        self.begin("redis")
        self.parts["redis"].wait_ready(60)
        super().start()

    def begin(self, part: str) -> None:
        if part != "redis":
            super().begin(part)
            return
        emitted = self.manifest("StatefulSet")
        sizes = {"--maxmemory": "1gb"}
        template = emitted["spec"]["template"]
        self.parts[part] = self.site.start(template, part, sizes=sizes, restart=True)
        self.service(emitted["metadata"]["name"], self.parts[part])
