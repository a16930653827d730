"""A checkout of Modelplane: its deployments, its Compositions, and its functions as processes."""

import contextlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
from crossplane.function.proto.v1 import run_function_pb2 as fnv1
from crossplane.function.proto.v1 import run_function_pb2_grpc as grpcv1

from kv_offload.render import append, files
from tests.modelplane import pins
from tests.modelplane.shapes import SHAPES
from tests.render.servers import OURS, free_port, serving

Document = dict[str, Any]

# Modelplane's packaged name of a function -> its folder.
_PACKAGED = "modelplane-modelplane"
_FUNCTIONS = ("compose-model-deployment", "compose-model-replica")
_FENCED = re.compile(r"^```yaml\n(.*?)^```", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Checkout:
    folder: Path
    pin: pins.Pin

    def deployments(self) -> Mapping[str, Document]:
        """{where it stands: a ModelDeployment}, Modelplane's and then ours."""
        found = {}
        for place in pins.MANIFESTS:
            path = self.folder / place
            for file in sorted(path.rglob("*.yaml")) if path.is_dir() else [path]:
                name = file.relative_to(self.folder).with_suffix("").as_posix()
                found |= {name + n: d for n, d in _deployments(file).items()}
        assert len(found) == self.pin.deployments, sorted(found)
        return found | SHAPES

    def composition(self, kind: str) -> Document:
        """Modelplane's Composition of a kind ("modelreplicas")."""
        path = self.folder / "apis" / kind / "composition.yaml"
        return files.load_one(path, "Composition")

    def with_our_step(self, kind: str) -> Document:
        """The same after `kv-offload add-step`."""
        composition = self.composition(kind)
        assert append.append_to(composition, kind, "kv-offload", OURS)
        return composition


def _deployments(file: Path) -> dict[str, Document]:
    text = file.read_text()
    texts = _FENCED.findall(text) if file.suffix == ".md" else [text]
    texts = [text for text in texts if "kind: ModelDeployment" in text]
    read = [d for text in texts for d in files.parse(text, file.name)]
    found = [d for d in read if d.get("kind") == "ModelDeployment" and "spec" in d]
    return {f"#{i}" if i else "": document for i, document in enumerate(found)}


class Remote:
    """A function that another process serves."""

    def __init__(self, address: str) -> None:
        self._stub = grpcv1.FunctionRunnerServiceStub(grpc.insecure_channel(address))

    async def RunFunction(self, req: fnv1.RunFunctionRequest, _: object) -> Any:
        return self._stub.RunFunction(req, timeout=60)


@contextlib.contextmanager
def functions(folder: Path) -> Iterator[dict[str, Remote]]:
    """Modelplane's functions, by the name that its Compositions have for them."""
    with contextlib.ExitStack() as stack:
        runners = {}
        for name in _FUNCTIONS:
            address = f"127.0.0.1:{free_port()}"
            command = [str(Path(__file__).parent / "theirs.py"), "--checkout", str(folder)]
            command += ["--function", name, "--address", address]
            stack.enter_context(serving(command, address))
            runners[_PACKAGED + name] = Remote(address)
        yield runners
