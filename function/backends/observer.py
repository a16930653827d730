"""The observer of a tier (`programs.observer`): whether engines use its cache.

It finds engines by headless Services, one in each namespace of theirs, and writes one ConfigMap,
its only right. The function reads that ConfigMap from the Object that composes it: the manifest
has no data, so that a write of the provider leaves the observer's alone.

Rejected: a ConfigMap for the program. It fits into one argument, and each Object costs events.
"""

import json
from collections.abc import Iterable, Iterator

import programs
from function.api.tier import Monitoring, Observe
from function.backends import agents, monitoring
from function.contract import namespaces
from function.contract.backend import OBSERVER, AnyBackend, AnyTier, Description, Manifest, Part
from function.contract.image import Image
from function.kube import manifests as k
from function.problems import Problem

NAME = "observer"
_METRICS = "probes"
DOCUMENT_KEY, DEPLOYMENT_KEY = "configmap-serving", "deployment-observer"
_PORT = 8082
_USER = 65532
_RUN = "\n\nsys.exit(main(sys.argv[1:]))\n"
_NETWORK_POLICY = "NetworkPolicy"


def problems(tier: AnyTier, backend: AnyBackend) -> Iterator[Problem]:
    """Yield namespaces in which the tier must place no Service, and a canary without a cache."""
    observe = tier.spec.observe
    if observe is None:
        return
    for index, namespace in enumerate(observe.namespaces):
        where = f"spec.observe.namespaces[{index}]"
        yield from namespaces.claim_problems(tier, namespace, where)
    if observe.canary is not None and backend.describe(tier).pairs_phases:
        message = (
            f"{tier.spec.backend} keeps no blocks that could be asked for again, so a canary has"
            " nothing to compare. Remove it."
        )
        yield Problem("spec.observe.canary", message)
    elif observe.quarantines:
        where = "spec.observe.canary.onWrongBlocks"
        if tier.spec.wiring.update != "Rolling":
            message = "gives engines another identity in turns: set spec.wiring.update to Rolling"
            yield Problem(where, message)
        described = backend.describe(tier)
        if not described.outlives_pods:
            message = (
                "the tier's blocks are in the engines' own pods: restart these, and set Report"
            )
            yield Problem(where, message)
        if described.one_identity:
            yield Problem(where, "the tier's storage serves one cache identity alone: set Report")


def observed(tier: AnyTier, backend: AnyBackend, parts: Iterable[Part]) -> list[Part]:
    """Return a tier's parts and, where it asks for one, its observer, which may reach them."""
    parts = list(parts)
    if tier.spec.observe is None:
        return parts
    ports = backend.metrics_ports(tier)
    for part in parts:
        manifest = part.manifest
        here = manifest["metadata"].get("namespace") == tier.remote_namespace
        if ports and here and manifest["kind"] == _NETWORK_POLICY:
            rule = k.ingress(ports, pods=_labels(tier))
            rule["from"][0].pop("namespaceSelector")
            manifest["spec"]["ingress"].append(rule)
            monitors = _monitors(tier)
            if monitors is not None and _selects_observer(tier, manifest):
                rule = k.ingress([_PORT], namespaces=monitors.namespace_labels)
                manifest["spec"]["ingress"].append(rule)
    shared = Part("namespace", k.namespace(tier.remote_namespace), keep=True)
    own = [] if any(part.key == shared.key for part in parts) else [shared]
    return [
        *own,
        *parts,
        *_parts(tier, tier.spec.observe, ports, backend.describe(tier)),
    ]


def _parts(
    tier: AnyTier, observe: Observe, ports: tuple[int, ...], described: Description
) -> Iterator[Part]:
    name = f"{tier.remote_name}-{NAME}"
    meta = k.metadata(name, tier.remote_namespace, tier.labels)
    document = k.metadata(_document(tier), tier.remote_namespace, tier.labels)
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": meta}
    yield _part("serviceaccount-observer", account | {"automountServiceAccountToken": False})
    yield _part("role-observer", _role(meta, _document(tier)))
    yield _part("rolebinding-observer", _binding(meta))
    yield _part(
        DOCUMENT_KEY, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": document}, watch=True
    )
    if ports:
        parts = k.metadata(_service(tier, "parts"), tier.remote_namespace, tier.labels)
        yield _part("service-observed-parts", _headless(parts, tier.labels, ports[0]))
    for namespace in observe.namespaces:
        engines = k.metadata(_service(tier, "engines"), namespace, tier.labels)
        manifest = _headless(engines, tier.wired_labels, observe.engine_ports[0])
        yield _part(f"service-engines-{namespace}", manifest, namespace=namespace)
    if _monitors(tier) is not None:
        selector = {"matchLabels": _labels(tier)}
        monitor = monitoring.pod_monitor(tier, name, selector, [_METRICS])
        if monitor is not None:
            yield _part("podmonitor-observer", monitor)
    yield _part(DEPLOYMENT_KEY, _deployment(tier, observe, meta, ports, described), watch=True)


def _part(key: str, manifest: Manifest, *, watch: bool = False, namespace: str = "") -> Part:
    return Part(key, manifest, OBSERVER, watch=watch, namespace_override=namespace)


def _monitors(tier: AnyTier) -> Monitoring | None:
    """Return who reads the observer's metrics, None where it has none: without a canary."""
    observe = tier.spec.observe
    return None if observe is None or observe.canary is None else tier.spec.monitoring


def _selects_observer(tier: AnyTier, policy: Manifest) -> bool:
    selector = policy["spec"]["podSelector"].get("matchLabels", {})
    return bool(selector.items() <= _labels(tier).items())


def _labels(tier: AnyTier) -> dict[str, str]:
    return k.component(tier.labels, NAME)


def _document(tier: AnyTier) -> str:
    return f"{tier.remote_name}-serving"


def _service(tier: AnyTier, of: str) -> str:
    return f"{tier.remote_name}-{of}"


def _headless(meta: Manifest, selector: dict[str, str], port: int) -> Manifest:
    """Return a headless Service: a name for the ready pods; nobody connects to its port."""
    service = k.service(meta, selector, {"metrics": port}, headless=True)
    service["spec"]["ports"][0]["targetPort"] = port
    return service


def _role(meta: Manifest, document: str) -> Manifest:
    rule = {
        "apiGroups": [""],
        "resources": ["configmaps"],
        "resourceNames": [document],
        "verbs": ["get", "patch"],
    }
    api = "rbac.authorization.k8s.io/v1"
    return {"apiVersion": api, "kind": "Role", "metadata": meta, "rules": [rule]}


def _binding(meta: Manifest) -> Manifest:
    api = "rbac.authorization.k8s.io"
    account = {"kind": "ServiceAccount", "name": meta["name"], "namespace": meta["namespace"]}
    return {
        "apiVersion": f"{api}/v1",
        "kind": "RoleBinding",
        "metadata": meta,
        "roleRef": {"apiGroup": api, "kind": "Role", "name": meta["name"]},
        "subjects": [account],
    }


def _deployment(
    tier: AnyTier,
    observe: Observe,
    meta: Manifest,
    ports: tuple[int, ...],
    described: Description,
) -> Manifest:
    image = observe.image
    pulled = Image(
        f"{image.repository}:{image.tag}",
        None,
        image.repository,
        image.pull_policy,
        tuple(secret.name for secret in tier.spec.image.pull_secrets),
    )
    config = _config(tier, observe, ports, described)
    container = agents.container(
        pulled,
        NAME,
        command=["python3", "-c", k.literal(programs.module("observer/main.py") + _RUN)],
        args=[k.literal(json.dumps(config, separators=(",", ":")))],
        ports=agents.ports(**{_METRICS: _PORT}),
        resources=agents.HELPER_RESOURCES,
        readinessProbe=k.http_probe("/readyz", "probes", period=10, failures=3),
        livenessProbe=k.http_probe("/healthz", "probes", period=60, failures=3),
    )
    pod = {
        **agents.pod(tier, pulled, _USER, nodes=observe.nodes),
        "automountServiceAccountToken": True,
        "serviceAccountName": meta["name"],
        "containers": [container],
    }
    # Two at once would write in turns.
    strategy = {"type": "Recreate"}
    labels = _labels(tier)
    where = k.metadata(meta["name"], meta["namespace"], labels)
    return k.workload("Deployment", where, labels, pod, replicas=1, strategy=strategy)


def _config(
    tier: AnyTier, observe: Observe, ports: tuple[int, ...], described: Description
) -> Manifest:
    engines = [
        {
            "namespace": namespace,
            "host": f"{_service(tier, 'engines')}.{namespace}.svc",
            "ports": list(observe.engine_ports),
        }
        for namespace in observe.namespaces
    ]
    config: Manifest = {
        "interval": observe.interval_seconds,
        "namespace": tier.remote_namespace,
        "name": _document(tier),
        "port": _PORT,
        "engines": engines,
    }
    if ports:
        host = f"{_service(tier, 'parts')}.{tier.remote_namespace}.svc"
        row = {"namespace": tier.remote_namespace, "host": host, "ports": list(ports)}
        config["parts"] = [row]
    if observe.canary is not None:
        canary = observe.canary
        config["canary"] = {"every": canary.every_seconds, "tokens": canary.prompt_tokens}
    flags = {"pairs": described.pairs_phases, "hides_hits": described.hides_hits}
    return config | {name: flag for name, flag in flags.items() if flag}
