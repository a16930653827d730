"""What is below vLLM's own memory: files with the evictor beside them, or a bucket."""

from tests.conformance import buckets
from tests.serve.pairs.running import Running


class Files(Running):
    """The evictor runs by the Python of the `vllm` environment, in the place of its image's."""

    def start(self) -> None:
        self.begin("evictor")
        self.parts["evictor"].wait_ready(60)

    def begin(self, part: str) -> None:
        self.mounted()
        template = self.manifest("Deployment", part)["spec"]["template"]
        self.parts[part] = self.site.start(template, part, restart=True)


class Bucket(Running):
    """The bucket that the tier names, the Secret with its keys, and whom to trust for it; the tier
    composes nothing."""

    def start(self) -> None:
        self.site.node.secrets["kv-bucket"] = buckets.CREDENTIALS
        buckets.certify(self.site.node, "company-ca")
        self.begin("bucket")
        self.parts["bucket"].wait_ready(60)

    def begin(self, part: str) -> None:
        template = buckets.template("blocks", tls=True)
        self.parts[part] = self.site.start(template, part, "vllm+levels", restart=True)
        buckets.name(self.site.node, "blocks", self.parts[part])
