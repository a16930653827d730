"""A Mooncake pool: its master, and a store with a gibibyte."""

from tests.conformance.mooncake import GIB, SIZE, with_env
from tests.serve.pairs.running import Running


class Pool(Running):
    """Substituted besides `pod.py`'s rule: the store's size, by its variable."""

    def start(self) -> None:
        self._master()
        self._store()
        self.parts["store"].wait_ready(120)

    def _master(self) -> None:
        template = self.manifest("Deployment", "master")["spec"]["template"]
        self.parts["master"] = self.site.start(template, "master", restart=True)
        self.service("master", self.parts["master"])

    def _store(self) -> None:
        template = self.manifest("DaemonSet", "store")["spec"]["template"]
        sized = with_env(template, {SIZE: str(GIB)})
        self.parts["store"] = self.site.start(sized, "store", restart=True)

    def replace(self, part: str) -> None:
        self.site.retire(self.parts.pop(part))
        {"master": self._master, "store": self._store}[part]()
        self.parts[part].wait_ready(120)
