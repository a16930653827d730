"""Whole pod templates in, whole pod templates out."""

from copy import deepcopy
from pathlib import Path

import pytest

from function.contract.injection import Injection, SharedMemory
from function.kube.manifests import literal
from function.pods.patch import apply
from function.problems import Refused
from programs import wait_for

GIB = 1024**3


def pod(container=None, spec=None, metadata=None):
    engine = {"name": "engine", "image": "vllm/vllm-openai:v0.33.0", **(container or {})}
    template = {"spec": {"containers": [engine], "enableServiceLinks": False, **(spec or {})}}
    return {"metadata": metadata, **template} if metadata else template


def shm_volume(**empty_dir):
    return {"name": "dshm", "emptyDir": {"medium": "Memory", **empty_dir}}


SHM_MOUNT = {"name": "dshm", "mountPath": "/dev/shm"}
OURS = {"name": "kv-offload-shm", "emptyDir": {"medium": "Memory"}}
NODES = {"name": "kv-offload-shm", "hostPath": {"path": "/dev/shm", "type": "Directory"}}
OUR_MOUNT = {"name": "kv-offload-shm", "mountPath": "/dev/shm"}
POD_IP = {"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}
POD_IP_V1 = {
    "name": "POD_IP",
    "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "status.podIP"}},
}
HOST = {"name": "HOST", "value": "http://$(POD_IP):1"}
HTTP = {"name": "http", "containerPort": 8000}
KV = {"name": "kv", "containerPort": 5600, "protocol": "TCP"}
WAIT = {"name": "kv-offload-await", "addresses": ["store:1", "other:1"], "seconds": 60}
AWAITS = {
    "name": "kv-offload-await",
    "image": "vllm/vllm-openai:v0.33.0",
    "command": ["python3", "-c", literal(Path(wait_for.__file__).read_text())],
    "args": ["60", "store:1", "other:1"],
    "resources": {"requests": {"cpu": "10m", "memory": "64Mi"}, "limits": {"memory": "64Mi"}},
    "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
    "terminationMessagePolicy": "FallbackToLogsOnError",
}
GUARANTEED = {
    "requests": {"cpu": "8", "memory": "64Gi"},
    "limits": {"cpu": "8", "memory": "64Gi"},
}
USER = {
    "runAsNonRoot": True,
    "runAsUser": 1000,
    "runAsGroup": 0,
    "seccompProfile": {"type": "RuntimeDefault"},
}
RESTRICTED = USER | {"capabilities": {"drop": ["ALL"], "add": ["NET_BIND_SERVICE"]}}
IN_ZONE = {"key": "zone", "operator": "In", "values": ["a"]}


def env(*names):
    return [{"name": n, "value": n.lower()} for n in names]


def terms(*expressions):
    required = {"nodeSelectorTerms": [{"matchExpressions": list(e)} for e in expressions]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}


KEPT_OR_ADDED = {
    "an empty injection only turns service links off": (
        {"spec": {"containers": [{"name": "engine"}]}},
        Injection(),
        {"spec": {"containers": [{"name": "engine"}], "enableServiceLinks": False}},
    ),
    "a user's own word on service links stands": (
        pod(spec={"enableServiceLinks": True}),
        Injection(),
        pod(spec={"enableServiceLinks": True}),
    ),
    "ours come after the user's, in order": (
        pod({"env": env("B", "A")}),
        Injection(env=tuple(env("D", "C"))),
        pod({"env": env("B", "A", "D", "C")}),
    ),
    "duplicates stay, the last one counts": (
        pod({"env": [*env("A"), {"name": "A", "value": "2"}]}),
        Injection(env=({"name": "A", "value": "2"},)),
        pod({"env": [*env("A"), {"name": "A", "value": "2"}]}),
    ),
    "an empty value is no value": (
        pod({"env": [{"name": "A"}]}),
        Injection(env=({"name": "A", "value": ""},)),
        pod({"env": [{"name": "A"}]}),
    ),
    "an equal field reference is kept as it is written": (
        pod({"env": [POD_IP_V1]}),
        Injection(env=(POD_IP,)),
        pod({"env": [POD_IP_V1]}),
    ),
    "what is referred to comes first": (
        pod(),
        Injection(env=(HOST, POD_IP)),
        pod({"env": [POD_IP, HOST]}),
    ),
    "an escaped reference is none": (
        pod(),
        Injection(env=({"name": "A", "value": "$$(B)"}, *env("B"))),
        pod({"env": [{"name": "A", "value": "$$(B)"}, *env("B")]}),
    ),
    "envFrom stays": (
        pod({"envFrom": [{"secretRef": {"name": "hf"}}]}),
        Injection(env=tuple(env("A"))),
        pod({"envFrom": [{"secretRef": {"name": "hf"}}], "env": env("A")}),
    ),
    "a default only where nothing stands": (
        pod({"env": [{"name": "PYTHONHASHSEED", "value": "7"}]}),
        Injection(env_if_absent=({"name": "PYTHONHASHSEED", "value": "0"}, *env("X"))),
        pod({"env": [{"name": "PYTHONHASHSEED", "value": "7"}, *env("X")]}),
    ),
    "names for Ray are joined to the user's": (
        pod({"env": [{"name": "VLLM_RAY_EXTRA_ENV_VARS_TO_COPY", "value": "A, B"}]}),
        Injection(ray_env=("B", "C")),
        pod({"env": [{"name": "VLLM_RAY_EXTRA_ENV_VARS_TO_COPY", "value": "A,B,C"}]}),
    ),
    "names for Ray alone": (
        pod(),
        Injection(ray_env=("C",)),
        pod({"env": [{"name": "VLLM_RAY_EXTRA_ENV_VARS_TO_COPY", "value": "C"}]}),
    ),
    "an equal mount under a name of the user's is used": (
        pod(
            {"volumeMounts": [{"name": "mine", "mountPath": "/kv/"}]},
            {"volumes": [{"name": "mine", "persistentVolumeClaim": {"claimName": "kv"}}]},
        ),
        Injection(
            volumes=({"name": "kv", "persistentVolumeClaim": {"claimName": "kv"}},),
            mounts=({"name": "kv", "mountPath": "/kv"},),
        ),
        pod(
            {"volumeMounts": [{"name": "mine", "mountPath": "/kv/"}]},
            {"volumes": [{"name": "mine", "persistentVolumeClaim": {"claimName": "kv"}}]},
        ),
    ),
    "defaults that the API server wrote are no difference": (
        pod(
            {"volumeMounts": [{"name": "c", "mountPath": "/c", "readOnly": False}]},
            {"volumes": [{"name": "c", "configMap": {"name": "x", "defaultMode": 420}}]},
        ),
        Injection(
            volumes=({"name": "c", "configMap": {"name": "x"}},),
            mounts=({"name": "c", "mountPath": "/c"},),
        ),
        pod(
            {"volumeMounts": [{"name": "c", "mountPath": "/c", "readOnly": False}]},
            {"volumes": [{"name": "c", "configMap": {"name": "x", "defaultMode": 420}}]},
        ),
    ),
    "absent shm is added": (
        pod(),
        Injection(shm=SharedMemory(bytes=GIB)),
        pod({"volumeMounts": [OUR_MOUNT]}, {"volumes": [OURS]}),
    ),
    "shm without a limit is kept": (
        pod({"volumeMounts": [SHM_MOUNT]}, {"volumes": [shm_volume()]}),
        Injection(shm=SharedMemory(bytes=GIB)),
        pod({"volumeMounts": [SHM_MOUNT]}, {"volumes": [shm_volume()]}),
    ),
    "shm with a limit that is enough is kept": (
        pod({"volumeMounts": [SHM_MOUNT]}, {"volumes": [shm_volume(sizeLimit="2Gi")]}),
        Injection(shm=SharedMemory(bytes=GIB)),
        pod({"volumeMounts": [SHM_MOUNT]}, {"volumes": [shm_volume(sizeLimit="2Gi")]}),
    ),
    "a small shm is enough where nothing is kept there": (
        pod({"volumeMounts": [SHM_MOUNT]}, {"volumes": [shm_volume(sizeLimit="64Mi")]}),
        Injection(shm=SharedMemory()),
        pod({"volumeMounts": [SHM_MOUNT]}, {"volumes": [shm_volume(sizeLimit="64Mi")]}),
    ),
    "the node's own shm is kept": (
        pod(
            {"volumeMounts": [SHM_MOUNT]},
            {"volumes": [{"name": "dshm", "hostPath": {"path": "/dev/shm"}}]},
        ),
        Injection(shm=SharedMemory(host=True)),
        pod(
            {"volumeMounts": [SHM_MOUNT]},
            {"volumes": [{"name": "dshm", "hostPath": {"path": "/dev/shm"}}]},
        ),
    ),
    "the node's shm is mounted where the agent shares it": (
        pod(),
        Injection(shm=SharedMemory(host=True)),
        pod(
            {"volumeMounts": [OUR_MOUNT]},
            {
                "volumes": [
                    {
                        "name": "kv-offload-shm",
                        "hostPath": {"path": "/dev/shm", "type": "Directory"},
                    }
                ]
            },
        ),
    ),
    "memory gives way where the agent shares the node's": (
        pod({"volumeMounts": [SHM_MOUNT]}, {"volumes": [shm_volume(sizeLimit="1Gi")]}),
        Injection(shm=SharedMemory(host=True)),
        pod({"volumeMounts": [OUR_MOUNT]}, {"volumes": [NODES]}),
    ),
    "and where hostIPC is set beside it": (
        pod({"volumeMounts": [SHM_MOUNT]}, {"hostIPC": True, "volumes": [shm_volume()]}),
        Injection(shm=SharedMemory(host=True)),
        pod({"volumeMounts": [OUR_MOUNT]}, {"hostIPC": True, "volumes": [NODES]}),
    ),
    "hostIPC shows the node's shm already": (
        pod(spec={"hostIPC": True}),
        Injection(shm=SharedMemory(bytes=GIB, host=True)),
        pod(spec={"hostIPC": True}),
    ),
    "device counts": (
        pod({"resources": {"limits": {"nvidia.com/gpu": 8}}}),
        Injection(resources={"rdma/hca": 1}),
        pod(
            {
                "resources": {
                    "limits": {"nvidia.com/gpu": 8, "rdma/hca": "1"},
                    "requests": {"rdma/hca": "1"},
                }
            }
        ),
    ),
    "more devices than needed are kept": (
        pod({"resources": {"limits": {"rdma/hca": 4}}}),
        Injection(resources={"rdma/hca": 1}),
        pod({"resources": {"limits": {"rdma/hca": 4}}}),
    ),
    "claims stand beside the user's": (
        pod(
            {"resources": {"claims": [{"name": "devices", "request": "gpu"}]}},
            {"resourceClaims": [{"name": "devices", "resourceClaimTemplateName": "gpus"}]},
        ),
        Injection(claims=({"name": "kv-nic", "resourceClaimTemplateName": "nic"},)),
        pod(
            {"resources": {"claims": [{"name": "devices", "request": "gpu"}, {"name": "kv-nic"}]}},
            {
                "resourceClaims": [
                    {"name": "devices", "resourceClaimTemplateName": "gpus"},
                    {"name": "kv-nic", "resourceClaimTemplateName": "nic"},
                ]
            },
        ),
    ),
    "capabilities are joined": (
        pod({"securityContext": {"capabilities": {"drop": ["ALL"], "add": ["SYS_NICE"]}}}),
        Injection(capabilities=("IPC_LOCK", "SYS_NICE")),
        pod(
            {
                "securityContext": {
                    "capabilities": {"drop": ["ALL"], "add": ["SYS_NICE", "IPC_LOCK"]}
                }
            }
        ),
    ),
    "a privileged container has them": (
        pod({"securityContext": {"privileged": True}}),
        Injection(capabilities=("IPC_LOCK",)),
        pod({"securityContext": {"privileged": True}}),
    ),
    "affinity goes into every term": (
        pod(
            spec={
                "affinity": terms(
                    [{"key": "gpu", "operator": "Exists"}],
                    [{"key": "old", "operator": "DoesNotExist"}],
                )
            }
        ),
        Injection(node_selector={"zone": "a"}),
        pod(
            spec={
                "affinity": terms(
                    [{"key": "gpu", "operator": "Exists"}, IN_ZONE],
                    [{"key": "old", "operator": "DoesNotExist"}, IN_ZONE],
                )
            }
        ),
    ),
    "the pod's own selector may say it already": (
        pod(spec={"nodeSelector": {"zone": "a"}}),
        Injection(node_selector={"zone": "a"}),
        pod(spec={"nodeSelector": {"zone": "a"}}),
    ),
    "preferences are not touched": (
        pod(spec={"affinity": {"podAntiAffinity": {"x": 1}}}),
        Injection(node_selector={"zone": "a"}),
        pod(spec={"affinity": {"podAntiAffinity": {"x": 1}, **terms([IN_ZONE])}}),
    ),
    "an alternative that is left is enough": (
        pod(
            spec={
                "affinity": terms(
                    [{"key": "zone", "operator": "In", "values": ["b"]}],
                    [{"key": "zone", "operator": "In", "values": ["a", "c"]}],
                )
            }
        ),
        Injection(node_selector={"zone": "a"}),
        pod(
            spec={
                "affinity": terms(
                    [{"key": "zone", "operator": "In", "values": ["b"]}, IN_ZONE],
                    [{"key": "zone", "operator": "In", "values": ["a", "c"]}, IN_ZONE],
                )
            }
        ),
    ),
    "labels": (
        pod(metadata={"labels": {"app": "x"}}),
        Injection(labels={"modelplane.ai/kv-offload": "chat-1"}),
        pod(metadata={"labels": {"app": "x", "modelplane.ai/kv-offload": "chat-1"}}),
    ),
    "a port that nobody has": (
        pod({"ports": [HTTP]}, {"initContainers": [{"name": "model", "ports": [KV]}]}),
        Injection(ports=(KV,)),
        pod({"ports": [HTTP, KV]}, {"initContainers": [{"name": "model", "ports": [KV]}]}),
    ),
    "a wait comes after the user's init containers": (
        pod({"imagePullPolicy": "Always"}, {"initContainers": [{"name": "model"}]}),
        Injection(waits=(WAIT,)),
        pod(
            {"imagePullPolicy": "Always"},
            {"initContainers": [{"name": "model"}, AWAITS | {"imagePullPolicy": "Always"}]},
        ),
    ),
    "a wait runs as the engine's container does": (
        pod({"securityContext": RESTRICTED | {"readOnlyRootFilesystem": True}}),
        Injection(waits=(WAIT,)),
        pod(
            {"securityContext": RESTRICTED | {"readOnlyRootFilesystem": True}},
            {"initContainers": [AWAITS | {"securityContext": AWAITS["securityContext"] | USER}]},
        ),
    ),
    "a wait keeps a Guaranteed pod Guaranteed": (
        pod({"resources": GUARANTEED}),
        Injection(waits=(WAIT,)),
        pod(
            {"resources": GUARANTEED},
            {
                "initContainers": [
                    AWAITS
                    | {
                        "resources": {
                            "requests": {"cpu": "8", "memory": "64Mi"},
                            "limits": {"cpu": "8", "memory": "64Mi"},
                        }
                    }
                ]
            },
        ),
    ),
    "a wait asks for no more CPU than the engine": (
        pod({"resources": {"requests": {"cpu": "4"}}}),
        Injection(waits=(WAIT,)),
        pod(
            {"resources": {"requests": {"cpu": "4"}}},
            {
                "initContainers": [
                    AWAITS
                    | {
                        "resources": {
                            "requests": {"cpu": "4", "memory": "64Mi"},
                            "limits": {"memory": "64Mi"},
                        }
                    }
                ]
            },
        ),
    ),
    "memory that is not set stays unset": (
        pod({"resources": {"limits": {"cpu": "4"}}}),
        Injection(memory_bytes=GIB),
        pod({"resources": {"limits": {"cpu": "4"}}}),
    ),
}


@pytest.mark.parametrize("name", KEPT_OR_ADDED)
def test_patched_pod_equals_the_expected_pod(name):
    template, injection, wanted = KEPT_OR_ADDED[name]
    before = deepcopy(template)
    got = apply(template, 0, injection)
    assert got == wanted
    assert template == before
    assert apply(got, 0, injection) == got


CONFLICTS = {
    "another value": (
        pod({"env": env("A")}),
        Injection(env=({"name": "A", "value": "2"},)),
        "PodConflict",
        "spec.containers[engine].env[A]",
    ),
    "a value from elsewhere": (
        pod({"env": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}]}),
        Injection(env=({"name": "A", "value": "2"},)),
        "PodConflict",
        "spec.containers[engine].env[A]",
    ),
    "a reference to what only follows": (
        pod({"env": [HOST]}),
        Injection(env=(HOST, POD_IP)),
        "PodConflict",
        "spec.containers[engine].env[HOST]",
    ),
    "names for Ray that are not literal": (
        pod(
            {
                "env": [
                    {
                        "name": "VLLM_RAY_EXTRA_ENV_VARS_TO_COPY",
                        "valueFrom": {"configMapKeyRef": {"name": "c", "key": "k"}},
                    }
                ]
            }
        ),
        Injection(ray_env=("A",)),
        "PodConflict",
        "spec.containers[engine].env[VLLM_RAY_EXTRA_ENV_VARS_TO_COPY]",
    ),
    "a path that is taken": (
        pod(
            {"volumeMounts": [{"name": "v", "mountPath": "/kv"}]},
            {"volumes": [{"name": "v", "emptyDir": {}}]},
        ),
        Injection(
            volumes=({"name": "kv", "persistentVolumeClaim": {"claimName": "kv"}},),
            mounts=({"name": "kv", "mountPath": "/kv"},),
        ),
        "PodConflict",
        "spec.containers[engine].volumeMounts[/kv]",
    ),
    "a volume name that is taken": (
        pod(spec={"volumes": [{"name": "kv", "emptyDir": {}}]}),
        Injection(volumes=({"name": "kv", "persistentVolumeClaim": {"claimName": "kv"}},)),
        "PodConflict",
        "spec.volumes[kv]",
    ),
    "shm that is too small": (
        pod({"volumeMounts": [SHM_MOUNT]}, {"volumes": [shm_volume(sizeLimit="1Gi")]}),
        Injection(shm=SharedMemory(bytes=GIB)),
        "SharedMemoryTooSmall",
        "spec.volumes[dshm].emptyDir.sizeLimit",
    ),
    "shm on disk": (
        pod({"volumeMounts": [SHM_MOUNT]}, {"volumes": [{"name": "dshm", "emptyDir": {}}]}),
        Injection(shm=SharedMemory()),
        "PodConflict",
        "spec.volumes[dshm]",
    ),
    "a shm on disk where the node's is shared": (
        pod({"volumeMounts": [SHM_MOUNT]}, {"volumes": [{"name": "dshm", "emptyDir": {}}]}),
        Injection(shm=SharedMemory(host=True)),
        "PodConflict",
        "spec.volumes[dshm]",
    ),
    "a shm that another container mounts too, where the node's is shared": (
        pod(
            {"volumeMounts": [SHM_MOUNT]},
            {
                "volumes": [shm_volume()],
                "initContainers": [{"name": "side", "volumeMounts": [SHM_MOUNT]}],
            },
        ),
        Injection(shm=SharedMemory(host=True)),
        "PodConflict",
        "spec.volumes[dshm]",
    ),
    "our name taken, where the node's is shared": (
        pod({"volumeMounts": [SHM_MOUNT]}, {"volumes": [shm_volume(), OURS]}),
        Injection(shm=SharedMemory(host=True)),
        "PodConflict",
        "spec.volumes[kv-offload-shm]",
    ),
    "too few devices": (
        pod({"resources": {"limits": {"rdma/hca": "1"}}}),
        Injection(resources={"rdma/hca": 2}),
        "PodConflict",
        "spec.containers[engine].resources.limits[rdma/hca]",
    ),
    "another claim of that name": (
        pod(spec={"resourceClaims": [{"name": "nic", "resourceClaimName": "mine"}]}),
        Injection(claims=({"name": "nic", "resourceClaimTemplateName": "t"},)),
        "PodConflict",
        "spec.resourceClaims[nic]",
    ),
    "a capability that is dropped by name": (
        pod({"securityContext": {"capabilities": {"drop": ["IPC_LOCK"]}}}),
        Injection(capabilities=("IPC_LOCK",)),
        "PodConflict",
        "spec.containers[engine].securityContext.capabilities.drop",
    ),
    "another selector": (
        pod(spec={"nodeSelector": {"zone": "b"}}),
        Injection(node_selector={"zone": "a"}),
        "NodeMismatch",
        "spec.nodeSelector[zone]",
    ),
    "an affinity that excludes": (
        pod(
            spec={
                "affinity": terms(
                    [{"key": "zone", "operator": "NotIn", "values": ["a"]}],
                    [{"key": "zone", "operator": "DoesNotExist"}],
                )
            }
        ),
        Injection(node_selector={"zone": "a"}),
        "NodeMismatch",
        "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution",
    ),
    "an empty term matches nothing": (
        pod(spec={"affinity": terms([])}),
        Injection(node_selector={"zone": "a"}),
        "NodeMismatch",
        "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution",
    ),
    "another label": (
        pod(metadata={"labels": {"l": "1"}}),
        Injection(labels={"l": "2"}),
        "PodConflict",
        "metadata.labels[l]",
    ),
    "a limit that is no quantity": (
        pod({"resources": {"limits": {"memory": "lots"}}}),
        Injection(memory_bytes=1),
        "PodConflict",
        "spec.containers[engine].resources.limits.memory",
    ),
    "hugepages alone": (
        pod(),
        Injection(hugepages={"2Mi": GIB}),
        "PodConflict",
        "spec.containers[engine].resources",
    ),
    "a port of the container with another meaning": (
        pod({"ports": [HTTP | {"containerPort": 5600}]}),
        Injection(ports=(KV,)),
        "PodConflict",
        "spec.containers[engine].ports[http]",
    ),
    "a port of a container beside it": (
        {"spec": {"containers": [{"name": "engine"}, {"name": "router", "ports": [KV]}]}},
        Injection(ports=(KV,)),
        "PodConflict",
        "spec.containers[router].ports[kv]",
    ),
    "a port of a sidecar": (
        pod(
            spec={
                "initContainers": [
                    {"name": "proxy", "restartPolicy": "Always", "ports": [{"containerPort": 5600}]}
                ]
            }
        ),
        Injection(ports=(KV,)),
        "PodConflict",
        "spec.initContainers[proxy].ports[5600]",
    ),
    "an init container of the wait's name": (
        pod(spec={"initContainers": [{"name": "kv-offload-await"}]}),
        Injection(waits=(WAIT,)),
        "PodConflict",
        "spec.initContainers[kv-offload-await]",
    ),
}


@pytest.mark.parametrize("name", CONFLICTS)
def test_conflict_messages_name_the_path_and_the_fix(name):
    template, injection, reason, path = CONFLICTS[name]
    before = deepcopy(template)
    with pytest.raises(Refused) as refused:
        apply(template, 0, injection)
    assert (refused.value.reason, refused.value.path) == (reason, path)
    assert refused.value.message
    assert template == before


def test_memory_is_raised_once_and_follows_tier_edits():
    template = pod({"resources": {"requests": {"memory": "10Gi"}, "limits": {"memory": "10.5Gi"}}})
    first = Injection(memory_bytes=GIB, shm=SharedMemory(bytes=GIB))
    wired = apply(template, 0, first)
    assert wired["spec"]["containers"][0]["resources"] == {
        "requests": {"memory": "12Gi"},
        "limits": {"memory": "12800Mi"},
    }
    assert wired["metadata"]["annotations"] == {
        "modelplane.ai/kv-offload-added": f"memory={2 * GIB}"
    }
    assert apply(wired, 0, first) == wired
    larger = apply(wired, 0, Injection(memory_bytes=3 * GIB))
    assert larger["spec"]["containers"][0]["resources"]["requests"] == {"memory": "13Gi"}
    none = apply(wired, 0, Injection())
    assert none["spec"]["containers"][0]["resources"]["requests"] == {"memory": "10Gi"}
    assert none["metadata"]["annotations"] == {}


def test_node_disk_counts_as_ephemeral_storage():
    """The kubelet adds what lies in an emptyDir to what the containers write."""
    first = Injection(storage_bytes=8 * GIB, memory_bytes=GIB)
    limits = {"ephemeral-storage": "10Gi", "memory": "4Gi"}
    wired = apply(pod({"resources": {"limits": limits}}), 0, first)
    raised = {"ephemeral-storage": "18Gi", "memory": "5Gi"}
    assert wired["spec"]["containers"][0]["resources"] == {"limits": raised}
    assert wired["metadata"]["annotations"] == {
        "modelplane.ai/kv-offload-added": f"ephemeral-storage={8 * GIB},memory={GIB}"
    }
    assert apply(wired, 0, first) == wired
    unsaid = apply(pod({"resources": {"limits": {"memory": "4Gi"}}}), 0, first)
    assert unsaid["spec"]["containers"][0]["resources"] == {"limits": {"memory": "5Gi"}}
    record = first.to_json()
    assert Injection.from_json({k: v for k, v in record.items() if k != "storage_bytes"}) == (
        Injection(memory_bytes=GIB)
    )


def test_host_shm_does_not_raise_the_memory():
    template = pod({"resources": {"limits": {"memory": "10Gi"}}})
    wired = apply(template, 0, Injection(shm=SharedMemory(bytes=GIB, host=True)))
    assert wired["spec"]["containers"][0]["resources"] == {"limits": {"memory": "10Gi"}}


def test_pod_level_limits_are_raised_with_the_container():
    template = pod(spec={"resources": {"limits": {"memory": "10Gi"}}})
    wired = apply(template, 0, Injection(memory_bytes=GIB))
    assert wired["spec"]["resources"] == {"limits": {"memory": "11Gi"}}


def test_hugepages_are_added_with_their_volume():
    template = pod({"resources": {"limits": {"memory": "8Gi", "hugepages-2Mi": "1Gi"}}})
    injection = Injection(hugepages={"2Mi": GIB})
    wired = apply(template, 0, injection)
    assert wired["spec"]["containers"][0] == {
        "name": "engine",
        "image": "vllm/vllm-openai:v0.33.0",
        "resources": {
            "limits": {"memory": "8Gi", "hugepages-2Mi": "2Gi"},
            "requests": {"hugepages-2Mi": "2Gi"},
        },
        "volumeMounts": [{"name": "kv-offload-hugepages-2mi", "mountPath": "/hugepages-2Mi"}],
    }
    assert wired["spec"]["volumes"] == [
        {"name": "kv-offload-hugepages-2mi", "emptyDir": {"medium": "HugePages-2Mi"}}
    ]
    assert apply(wired, 0, injection) == wired


def test_files_are_mounted_and_commands_replaced():
    template = pod({"args": ["m"], "command": ["vllm", "serve"], "x-unknown": {"kept": True}})
    wired = apply(
        template,
        0,
        Injection(files={"m.json": "{}"}, files_path="/etc/kv-offload"),
        command_changes={"args": ["m", "--x"]},
        files_volume={"name": "kv-offload-files", "configMap": {"name": "chat-files"}},
    )
    assert wired["spec"]["containers"] == [
        {
            "name": "engine",
            "image": "vllm/vllm-openai:v0.33.0",
            "args": ["m", "--x"],
            "command": ["vllm", "serve"],
            "x-unknown": {"kept": True},
            "volumeMounts": [
                {"name": "kv-offload-files", "mountPath": "/etc/kv-offload", "readOnly": True}
            ],
        }
    ]
    assert list(wired["spec"]["containers"][0])[:4] == ["name", "image", "args", "command"]


def test_only_the_serving_container_changes():
    other = {"name": "log", "env": env("A"), "resources": {"limits": {"memory": "1Gi"}}}
    template = {"spec": {"containers": [other, {"name": "engine"}]}}
    wired = apply(template, 1, Injection(env=tuple(env("B")), memory_bytes=GIB, shm=SharedMemory()))
    assert wired["spec"]["containers"][0] == other
    assert wired["spec"]["containers"][1]["env"] == env("B")
