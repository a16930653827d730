"""A Mooncake pool: its master, and a store with a gibibyte."""

from tests.conformance.mooncake import SIZE, with_env
from tests.serve.pairs.running import Running

KINDS = {"master": "Deployment", "store": "DaemonSet"}


class Pool(Running):
    """Substituted besides `pod.py`'s rule: the store's size, by its variable."""

    def start(self) -> None:
        for part in KINDS:
            self.begin(part)
        self.parts["store"].wait_ready(120)

    def begin(self, part: str) -> None:
        template = self.manifest(KINDS[part], part)["spec"]["template"]
        sized = with_env(template, {SIZE: str(self.memory)}) if part == "store" else template
        self.parts[part] = self.site.start(sized, part, restart=True)
        self.service(part, self.parts[part])
