"""The node that a pair runs on: its models, its images, and every pod that was started."""

import itertools
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import programs
from function.contract.payload import PAYLOADS
from tests.conformance.envs import (
    PAYLOAD,
    Environment,
    environment,
    environment_with,
    release,
)
from tests.conformance.manifests import Manifest
from tests.conformance.node import Node
from tests.conformance.pod import Pod
from tests.serve import gpu_kit, models
from tests.serve.engine import Engine
from tests.serve.standins import CLAIM, PAYLOAD_CLAIM, StandIn
from tests.serve.wiring import Wired

HERE = Path(__file__).parent
SHIMS = HERE / "shims"
GPU = "gpu"
# Packages of the environment `vllm` that images of SGLang have as well.
_SGLANG_LACKS = ("mooncake*", "nixl", "nixl_cu13*", ".nixl_cu13*", "nixl_meta_utils.py")

# A repository in a hub's cache: revision -> the seed of its weights.
REPOSITORY = "acme/tiny"
REVISIONS = {"v1": "1" * 40, "v2": "2" * 40}


class Site:
    """`logs`: a folder that keeps each pod's logs, one folder a pod, in order of starting. `gpu`:
    the environment of engines on a GPU (gpu_kit.py), where there is one.
    """

    def __init__(self, node: Node, logs: Path, gpu: Path | None = None):
        self.node, self.logs, self.gpu = node, logs, gpu
        self.pods: list[Pod] = []
        self._numbers = itertools.count(1)

    def image(self, kind: str) -> Environment:
        """What stands in for an image: `vllm` (with LMCache and Mooncake), `vllm+NAME` (with those
        packages beside), `sglang`, or what a kit brought to a machine with a GPU."""
        if kind == GPU or self.gpu is not None:
            assert self.gpu is not None, "engines on a GPU need --gpu"
            return gpu_kit.image(GPU, self.gpu)
        engine, _, packages = kind.partition("+")
        return environment_with(packages) if packages else environment(engine)

    def stand_in(self, one: StandIn, template: Manifest) -> Manifest:
        """The template with that stand-in, which a machine with a GPU does not need."""
        return template if self.gpu is not None else one.apply(template)

    def model(self, claim: str, seed: int, more: Mapping[str, Any] | None = None) -> None:
        """Weights of that seed on a claim; `more` goes into the model's configuration."""
        models.write_model(self.node.volume("claim", claim), seed, more)

    def hub(self, claim: str, seeds: Mapping[str, int]) -> None:
        """A hub's cache with the repository: revision -> seed of its weights."""
        cache = (
            self.node.volume("claim", claim) / "hub" / f"models--{REPOSITORY.replace('/', '--')}"
        )
        for name, seed in seeds.items():
            models.write_model(cache / "snapshots" / REVISIONS[name], seed)
            (cache / "refs").mkdir(exist_ok=True)
            (cache / "refs" / name).write_text(REVISIONS[name])

    def shims(self) -> None:
        """What lets engines run without a GPU, on claims. SGLang's images have
        Mooncake and NIXL, and its environment has not: they lie beside."""
        shutil.copytree(SHIMS / "vllm", self.node.volume("claim", CLAIM), dirs_exist_ok=True)
        if self.gpu is not None:
            return
        folder = self.node.volume("claim", "shims")
        shutil.copy(SHIMS / "sglang/sitecustomize.py", folder)
        shutil.copy(HERE.parent / "conformance/checkers/stubs.py", folder)
        packages = next(self.image("vllm").path.glob("lib/python*/site-packages"))
        for part in (found for name in _SGLANG_LACKS for found in packages.glob(name)):
            if part.is_dir():
                shutil.copytree(part, folder / part.name)
            else:
                shutil.copy(part, folder)

    def payload(self) -> None:
        """What the payload image holds, on a claim: wheels for this machine's Python, no CUDA."""
        claim = self.node.volume("claim", PAYLOAD_CLAIM)
        (claim / "packages").mkdir(exist_ok=True)
        for row in PAYLOADS:
            (wheel,) = (each for each in PAYLOAD if each.startswith(row.package))
            folder = claim / "packages" / row.name
            if not folder.exists():
                folder.symlink_to(release(wheel))
        (claim / "program").mkdir(exist_ok=True)
        shutil.copy(Path(programs.__file__).with_name("payload.py"), claim / "program")

    def adapter(self, claim: str, seed: int, path: str = "") -> None:
        """A LoRA adapter of that seed on a claim."""
        models.write_adapter(self.node.volume("claim", claim) / path, seed)

    def start(
        self,
        template: Manifest,
        name: str,
        image: str = "vllm",
        *,
        sizes: Mapping[str, str] | None = None,
        restart: bool = False,
    ) -> Pod:
        """A pod of the template. `restart`: as the kubelet restarts containers."""
        logs = self.logs / f"{next(self._numbers):02d}-{name}"
        logs.mkdir(parents=True)
        pod = Pod(
            self.node,
            template,
            self.image(image),
            name=name,
            sizes=sizes,
            restart=restart,
            logs=logs,
        )
        self.pods.append(pod)
        return pod

    def engine(
        self,
        wired: Wired,
        name: str,
        image: str = "vllm",
        speaks: type[Engine] = Engine,
        **more: bool,
    ) -> Engine:
        """An engine's pod with the files that it mounts; it is not awaited."""
        for file, content in wired.config_maps.items():
            self.node.config_maps[file] = content
        template = wired.templates.get(name, wired.templates.get("main"))
        return speaks(self.start(template, name, image, **more))

    def stop(self, *engines: Engine) -> None:
        """Remove engines at once, as the loss of their nodes would."""
        for engine in engines:
            self.remove(engine.pod)

    def retire(self, pod: Pod) -> Mapping[str, tuple[float, int]]:
        """Stop one pod within its grace period: container -> seconds, exit code."""
        self.pods.remove(pod)
        return pod.stop()

    def remove(self, pod: Pod) -> None:
        """Remove one pod at once."""
        self.pods.remove(pod)
        pod.close()

    def close(self) -> None:
        """Remove every pod that is left."""
        while self.pods:
            self.pods.pop().close()
