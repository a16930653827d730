"""The facts of one engine pod that backends and the version gate decide by."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from function.contract.accelerators.kinds import Accelerator
from function.contract.packages import Fact, unknown

VLLM = "vLLM"
SGLANG = "SGLang"
ENGINES = (VLLM, SGLANG)

# The ranks that share one KV cache, and how often they are there: products of these flags, where
# they are numbers (vLLM's ParallelConfig.world_size).
_RANKS = {
    VLLM: (
        "--tensor-parallel-size",
        "--pipeline-parallel-size",
        "--prefill-context-parallel-size",
    ),
    SGLANG: ("--tp-size", "--pp-size"),
}
_REPLICAS = {VLLM: "--data-parallel-size", SGLANG: "--dp-size"}
# How many of them one pod has, which may be a workload of its own.
_LOCAL = {VLLM: "--data-parallel-size-local"}
# With it SGLang's data parallelism takes its ranks from those of tensor parallelism.
_SHARED_RANKS = {"--dp-size": "--enable-dp-attention"}


@dataclass(frozen=True)
class Engine:
    """One engine (a single pod, or a gang of `pods`), as looked up and never guessed.

    `name`: vLLM or SGLang. `version`: a PEP 440 string, or None when nothing declares it.
    `name_source`, `version_source`: what proved it, for the record and for people
    ("annotation", "argv", "engineImages", "image tag", "input").
    `flags`: the engine's effective flags, canonical dashed names, last one wins, None for a switch
    and for a value that is not static. `env`: the container's literal env values (None:
    valueFrom). `more_env`: other variables may be set that cannot be seen here. `namespace`: of
    its pods on the workload cluster, "" when unknown. `phase`: Unified, Prefill or Decode.
    `identity`: the cache identity digest, "" when unknown. `tenant`: the part of the tier that it
    is kept to (`Backend.tenant`), "" where all share it.
    `model`: the string behind the model argument, "" when unknown. `features`: what the version
    gate says this engine's version has of the tier's connector (`function.contract.gate`).
    `packages`: what is known of the image's, by the names of PACKAGES. `families`: what somebody
    declares the model to be. `accelerator`: what the pod runs on.
    """

    name: str
    version: str | None = None
    name_source: str = ""
    version_source: str = ""
    image: str = ""
    flags: Mapping[str, str | None] = field(default_factory=dict)
    env: Mapping[str, str | None] = field(default_factory=dict)
    more_env: bool = False
    pods: int = 1
    namespace: str = ""
    phase: str = "Unified"
    model: str = ""
    identity: str = ""
    tenant: str = ""
    features: frozenset[str] = frozenset()
    packages: Mapping[str, Fact] = field(default_factory=dict)
    families: frozenset[str] = frozenset()
    accelerator: Accelerator = field(default_factory=Accelerator)

    def flag(self, name: str) -> str | None:
        """The effective value of a flag given in its canonical spelling, or None."""
        return self.flags.get(name)

    def package(self, name: str) -> Fact:
        """What is known of a package of the image, which may be nothing."""
        return self.packages.get(name) or unknown("no table says what this image holds")

    @property
    def workers(self) -> int:
        """Worker processes in one pod: the engine's GPUs over its pods; 1 where nothing says."""
        replicas, local = _REPLICAS[self.name], _LOCAL.get(self.name, "")
        shared = self.has(_SHARED_RANKS.get(replicas, ""))
        count = self.ranks * (1 if shared else self._number(replicas))
        found = -(-count // max(1, self.pods))
        return min(found, self.ranks * self._number(local)) if self.flag(local) else found

    @property
    def ranks(self) -> int:
        """Worker processes that share one KV cache, over all pods."""
        count = 1
        for flag in _RANKS[self.name]:
            count *= self._number(flag)
        return count

    @property
    def is_node_local(self) -> bool:
        """Whether all ranks that share one KV cache are in one pod: a single pod, or vLLM's data
        parallelism with whole replicas in each of its pods."""
        if self.pods <= 1:
            return True
        replicas, split = self._number("--data-parallel-size"), self._number("--nnodes")
        if self.name != VLLM or replicas % self.pods or split > 1 or self._on_ray:
            return False
        local = self.flag("--data-parallel-size-local")
        return self.ranks == 1 or local == str(replicas // self.pods)

    @property
    def _on_ray(self) -> bool:
        """Whether Ray places the ranks, wherever there is room."""
        flags = ("--distributed-executor-backend", "--data-parallel-backend")
        return any(self.flag(name) == "ray" for name in flags)

    def _number(self, name: str) -> int:
        """A flag's number; 1 where it has none that an engine starts with."""
        value = self.flag(name) or ""
        return max(1, int(value)) if value.isdecimal() and len(value) < 10 else 1

    def has(self, name: str) -> bool:
        return name in self.flags
