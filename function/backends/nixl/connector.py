"""The wiring of engine pods: prefill or decode, at an address the other can reach.

Every key is set that decides whether two engines are compatible: defaults differ by version.
"""

from collections.abc import Callable

from function.api.engines import SGLANG, VLLM
from function.backends.nixl import facts, ports
from function.backends.nixl.conflicts import CONFLICTS
from function.backends.nixl.facts import Tier
from function.backends.rdma import CAPABILITIES, ENGINE_CLAIM, engine_device
from function.contract.engine import Engine
from function.contract.injection import Injection, Json
from function.contract.recorded import Allowance
from function.engines.registry import kind
from function.kube import access
from function.workloads.model import DECODE, PREFILL

MODE, TRANSFER = "--disaggregation-mode", "--disaggregation-transfer-backend"
BACKEND = "SGLANG_DISAGGREGATION_NIXL_BACKEND"
_TELEMETRY, _VOLUME = "/var/run/kv-offload/nixl", "kv-offload-nixl"
# By default 30 s: decode engines that waited or hung longer read blocks of other prompts.
LEASE, _LEASE_SECONDS = "kv_lease_duration", 300
_EXTRA = "kv_connector_extra_config"
_POLICY = {"Fail": "fail", "Recompute": "recompute"}
_MODES = {PREFILL: "prefill", DECODE: "decode"}
_DEVICES = "UCX_NET_DEVICES"
_POD_IP: Json = {"fieldRef": {"fieldPath": "status.podIP"}}
_TELEMETRY_ENV = {
    "NIXL_TELEMETRY_ENABLE": "y",
    # One port for all ranks of a pod; the plain exporter binds one for each process.
    "NIXL_TELEMETRY_EXPORTER": "prometheus_mp",
    "NIXL_TELEMETRY_MULTIPROC_DIR": _TELEMETRY,
}
_TELEMETRY_PORT = "NIXL_TELEMETRY_PROMETHEUS_PORT"

ALLOWS = Allowance(
    connectors=frozenset(name for names in facts.NAMES.values() for name in names),
    flags=frozenset({MODE, TRANSFER, ports.BOOTSTRAP}),
    env=frozenset(
        {ports.SIDE_HOST, ports.SIDE_PORT, ports.SGLANG_HOST, ports.UCX_RANGE, _DEVICES}
        | {BACKEND, _TELEMETRY_PORT}
        | _TELEMETRY_ENV.keys()
    ),
    mounts=(_TELEMETRY,),
    volumes=frozenset({"emptyDir"}),
    capabilities=frozenset(CAPABILITIES),
    claims=frozenset({ENGINE_CLAIM}),
    ports=ports.NAMES,
)


def inject(tier: Tier, engine: Engine) -> Injection:
    """Return the wiring of one engine pod. Raise Refused."""
    CONFLICTS.check(tier, engine)
    return _ENGINES[engine.name](tier, engine)


def _vllm(tier: Tier, engine: Engine) -> Injection:
    spec = tier.settings
    extra: Json = {"backends": [spec.backend]}
    own = (access.mapping(each, _EXTRA) for each in kind(engine.name).transfers(engine.flags))
    if spec.lease_seconds or not any(LEASE in each for each in own):
        extra |= {LEASE: spec.lease_seconds or _LEASE_SECONDS} if LEASE in engine.features else {}
    # Modelplane and llm-d may set the same in the pod already.
    address: list[Json] = [
        {"name": ports.SIDE_HOST, "valueFrom": _POD_IP},
        {"name": ports.SIDE_PORT, "value": str(spec.side_channel_port)},
    ]
    telemetry = _telemetry(tier)
    return Injection(
        backend="NIXL",
        connector={
            "kv_connector": facts.connector(tier, engine),
            "kv_role": facts.role(engine),
            _EXTRA: extra,
        },
        connector_options={"kv_load_failure_policy": _POLICY[spec.failure_policy]},
        env_if_absent=(*address, *_ucx(tier)),
        # Ray itself copies variables with the prefixes VLLM_ and UCX_.
        ray_env=tuple(variable["name"] for variable in telemetry.get("env", ())),
        ports=ports.container_ports(tier, engine),
        labels=tier.wired_labels,
        **telemetry,
        **engine_device(tier, spec.rdma_claim_template_name),
    )


def _sglang(tier: Tier, engine: Engine) -> Injection:
    spec = tier.settings
    flags: dict[str, str | None] = {MODE: _MODES[engine.phase], TRANSFER: "nixl"}
    if engine.phase == PREFILL and not engine.has(ports.BOOTSTRAP):
        flags[ports.BOOTSTRAP] = str(spec.bootstrap_port)
    backend: tuple[Json, ...] = ({"name": BACKEND, "value": spec.backend},)
    # By default SGLang uses HOST_IP, which may be the node's, or its default route, and stops
    # without one.
    address: list[Json] = [{"name": ports.SGLANG_HOST, "valueFrom": _POD_IP}]
    if ports.SGLANG_INTERFACE in engine.env:
        address = []
    return Injection(
        backend="NIXL",
        flags=flags,
        # Older releases support only UCX, without the variable.
        env=backend if "backend" in engine.features else (),
        env_if_absent=(*address, *_ucx(tier)),
        ports=ports.container_ports(tier, engine),
        labels=tier.wired_labels,
        **engine_device(tier, spec.rdma_claim_template_name),
    )


def _ucx(tier: Tier) -> list[Json]:
    spec = tier.settings
    if spec.backend != "UCX":
        return []
    last = spec.ports.first + spec.ports.count - 1
    env: list[Json] = [{"name": ports.UCX_RANGE, "value": f"{spec.ports.first}-{last}"}]
    if tier.spec.rdma.devices:
        # The first port of each: without one UCX knows no device of that name.
        names = ",".join(f"{device}:1" for device in tier.spec.rdma.devices)
        env.append({"name": _DEVICES, "value": names})
    return env


def _telemetry(tier: Tier) -> Json:
    counters = tier.settings.telemetry
    if counters is None:
        return {}
    values = _TELEMETRY_ENV | {_TELEMETRY_PORT: str(counters.port)}
    return {
        "env": tuple({"name": name, "value": value} for name, value in sorted(values.items())),
        "volumes": ({"name": _VOLUME, "emptyDir": {}},),
        "mounts": ({"name": _VOLUME, "mountPath": _TELEMETRY},),
    }


_ENGINES: dict[str, Callable[[Tier, Engine], Injection]] = {VLLM: _vllm, SGLANG: _sglang}
