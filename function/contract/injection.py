"""What a pod of an engine gets from a backend: plain data, JSON both ways.

An `Injection` is a backend's whole answer for one engine pod. It is what wiring applies to a pod
template *and* what the record keeps, so that a pod can be wired again when its tier is gone: the
replay runs the same code on the same data. Secrets appear by reference only.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

Json = dict[str, Any]


@dataclass(frozen=True)
class SharedMemory:
    """`/dev/shm` of an engine pod.

    `bytes`: what the connector keeps there, added to what the pod already has; 0 asks only that
    `/dev/shm` is memory-backed. `host`: the node's own `/dev/shm` (hostPath), shared with the agent
    (LMCache without isolated IPC); a pod that mounts an emptyDir there cannot be wired.
    """

    bytes: int = 0
    host: bool = False


@dataclass(frozen=True)
class Injection:
    """One engine pod's wiring. All collections may be empty; their order is kept."""

    backend: str = ""
    # vLLM: one child of `--kv-transfer-config` (KVTransferConfig shape, with kv_role). Merged with
    # the user's own connector into a MultiConnector, user's first.
    connector: Json | None = None
    # Top-level fields of the KVTransferConfig, e.g. {"kv_load_failure_policy": "recompute"}.
    connector_options: Json = field(default_factory=dict)
    # vLLM `--kv-events-config` object, only where the tier asks for it; never over the user's.
    kv_events: Json | None = None
    # Further engine flags in their canonical spelling: {"--page-size": "64", "--enable-x": None},
    # None being a switch. A user's own equal value is kept, another is a ConnectorConflict.
    flags: Mapping[str, str | None] = field(default_factory=dict)
    # core/v1 EnvVar objects. `env_if_absent`: only where the pod has no value of that name.
    env: tuple[Json, ...] = ()
    env_if_absent: tuple[Json, ...] = ()
    # Variables that are lists of directories, {name: directory}: it goes behind what the pod has.
    search_paths: Mapping[str, str] = field(default_factory=dict)
    # Names of env variables Ray must copy to its workers (VLLM_RAY_EXTRA_ENV_VARS_TO_COPY).
    ray_env: tuple[str, ...] = ()
    # Files the pod mounts: composed as one ConfigMap by the consumer's step. {path below
    # `files_path`: text}; settings are named by their text's digest (naming.file_name).
    files: Mapping[str, str] = field(default_factory=dict)
    files_path: str = ""
    # core/v1 ContainerPort objects of the engine's container.
    ports: tuple[Json, ...] = ()
    # What must answer before the engine starts, each in an init container of the engine's image:
    # {"name": its name, "addresses": HOST:PORT, one of which must accept, "seconds": how long}.
    waits: tuple[Json, ...] = ()
    # Packages that an init container copies in front of the image's own: {"image": of the payload,
    # "names": folders in it, "bytes": of their files}.
    payload: Json | None = None
    # core/v1 Volume and VolumeMount objects.
    volumes: tuple[Json, ...] = ()
    mounts: tuple[Json, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    # Required node affinity: {label: [values]} and NodeSelectorRequirement for anything else.
    node_selector: Mapping[str, str] = field(default_factory=dict)
    node_expressions: tuple[Json, ...] = ()
    shm: SharedMemory | None = None
    # Bytes the engine container needs beyond what it has (memory requests and limits, if set).
    memory_bytes: int = 0
    # Bytes of the node's own disk in volumes of the pod (ephemeral-storage, likewise).
    storage_bytes: int = 0
    hugepages: Mapping[str, int] = field(default_factory=dict)  # {"2Mi": bytes}
    resources: Mapping[str, int] = field(default_factory=dict)  # {"rdma/hca": 1}, requests = limits
    # Pod resourceClaims entries; the engine container references each by name.
    claims: tuple[Json, ...] = ()
    capabilities: tuple[str, ...] = ()

    def to_json(self) -> Json:
        """Return the record's form, without fields at their default; the writer sorts keys."""
        out: Json = {}
        for name, default in _DEFAULTS.items():
            value = getattr(self, name)
            if value == default:
                continue
            if name == "shm":
                value = {"bytes": value.bytes, "host": value.host}
            elif isinstance(value, tuple):
                value = list(value)
            elif isinstance(value, Mapping):
                value = dict(value)
            out[name] = value
        return out

    @classmethod
    def from_json(cls, data: Json) -> "Injection":
        """Invert `to_json`. Raise TypeError for unknown keys (a newer function's record)."""
        known = dict(data)
        if known.get("shm") is not None:
            known["shm"] = SharedMemory(**known["shm"])
        for f in fields(cls):
            if f.name in known and isinstance(known[f.name], list):
                known[f.name] = tuple(known[f.name])
        return cls(**known)


# {field: its default}, in the order of the fields.
_DEFAULTS = vars(Injection())
