"""The files below vLLM's own memory: the tier's claim, and the evictor beside it."""

from tests.serve.pairs.running import Running


class Files(Running):
    """The evictor runs by the Python of the `vllm` environment, in the place of its image's."""

    def start(self) -> None:
        self.begin("evictor")
        self.parts["evictor"].wait_ready(60)

    def begin(self, part: str) -> None:
        for manifest in self.declared.manifests:
            if manifest["kind"] == "ConfigMap":
                self.site.node.config_maps[manifest["metadata"]["name"]] = manifest["data"]
        template = self.manifest("Deployment", part)["spec"]["template"]
        self.parts[part] = self.site.start(template, part, restart=True)
