"""Properties of `apply` over generated pods and injections."""

import json
from copy import deepcopy

from hypothesis import given, settings
from hypothesis import strategies as st

from function.contract.injection import Injection, SharedMemory
from function.pods.patch import apply
from function.problems import Refused

NAMES = st.sampled_from(["A", "B", "C", "D"])
VALUES = st.sampled_from(["1", "$(A)", "$(B)/x", ""])
VARIABLE = st.one_of(
    st.fixed_dictionaries({"name": NAMES, "value": VALUES}),
    st.fixed_dictionaries(
        {"name": NAMES, "valueFrom": st.just({"fieldRef": {"fieldPath": "status.podIP"}})}
    ),
)
SOURCES = st.sampled_from(
    [
        {"emptyDir": {}},
        {"emptyDir": {"medium": "Memory"}},
        {"emptyDir": {"medium": "Memory", "sizeLimit": "4Gi"}},
        {"hostPath": {"path": "/dev/shm"}},
        {"persistentVolumeClaim": {"claimName": "p"}},
    ]
)
PATHS = ["/a", "/b", "/dev/shm"]
UNKNOWN = st.dictionaries(st.sampled_from(["x-one", "x-two"]), st.integers(), max_size=2)
QUANTITY = st.sampled_from(["1Gi", "1500M", "0.5Gi", "2e9"])
EXPRESSION = st.fixed_dictionaries(
    {
        "key": st.sampled_from(["zone", "gpu"]),
        "operator": st.sampled_from(["In", "NotIn"]),
        "values": st.lists(st.sampled_from(["a", "b"]), min_size=1, max_size=2, unique=True),
    }
)


@st.composite
def templates(draw):
    volumes = draw(st.dictionaries(st.sampled_from(["v", "w", "kv"]), SOURCES, max_size=3))
    mounts = [
        {"name": name, "mountPath": path}
        for name, path in zip(volumes, draw(st.permutations(PATHS)), strict=False)
    ]
    container = {
        "name": "engine",
        **draw(UNKNOWN),
        "env": draw(st.lists(VARIABLE, max_size=4)),
        "volumeMounts": mounts,
        "resources": {
            kind: {"memory": q, "cpu": "1"}
            for kind, q in draw(
                st.dictionaries(st.sampled_from(["limits", "requests"]), QUANTITY)
            ).items()
        },
    }
    spec = {
        **draw(UNKNOWN),
        "containers": [container],
        "volumes": [{"name": n, **s} for n, s in volumes.items()],
    }
    expressions = draw(st.lists(st.lists(EXPRESSION, max_size=2), max_size=2))
    if expressions:
        spec["affinity"] = {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [{"matchExpressions": e} for e in expressions]
                }
            }
        }
    return {"metadata": {"labels": draw(UNKNOWN)}, "spec": spec}


def unique(items):
    return tuple({item["name"]: item for item in items}.values())


@st.composite
def injections(draw):
    volume = {"name": "kv", **draw(SOURCES)}
    return Injection(
        env=unique(draw(st.lists(VARIABLE, max_size=4))),
        env_if_absent=unique(draw(st.lists(VARIABLE, max_size=2))),
        ray_env=tuple(draw(st.lists(NAMES, max_size=2, unique=True))),
        volumes=(volume,),
        mounts=({"name": "kv", "mountPath": draw(st.sampled_from(["/a", "/c"]))},),
        shm=draw(
            st.none()
            | st.builds(SharedMemory, bytes=st.sampled_from([0, 2**30, 2**33]), host=st.booleans())
        ),
        memory_bytes=draw(st.sampled_from([0, 1, 2**30])),
        hugepages=draw(st.dictionaries(st.just("2Mi"), st.just(2**30), max_size=1)),
        resources=draw(st.dictionaries(st.just("rdma/hca"), st.just(1), max_size=1)),
        node_selector=draw(st.dictionaries(st.just("zone"), st.sampled_from(["a", "b"]))),
        labels={"l": "1"},
        capabilities=("IPC_LOCK",),
        claims=({"name": "nic", "resourceClaimTemplateName": "t"},),
        ports=({"name": "kv", "containerPort": 5600, "protocol": "TCP"},),
        waits=({"name": "kv-offload-await", "addresses": ["store:1"], "seconds": 60},),
    )


def is_kept(before, after):
    """Every field of `before` is still there, lists keep their order, quantities may grow."""
    if isinstance(before, dict):
        return isinstance(after, dict) and all(
            key in after and (key == "memory" or is_kept(value, after[key]))
            for key, value in before.items()
        )
    if isinstance(before, list):
        rest = iter(after)
        return all(any(is_kept(item, other) for other in rest) for item in before)
    return before == after


def without_memory(template):
    """The template less what is nothing but memory at /dev/shm: it gives way to the node's own."""
    template = deepcopy(template)
    spec = template["spec"]
    memory = {v["name"] for v in spec["volumes"] if v.get("emptyDir", {}).get("medium") == "Memory"}
    (container,) = spec["containers"]
    gone = {
        m["name"]
        for m in container["volumeMounts"]
        if m["mountPath"] == "/dev/shm" and m["name"] in memory
    }
    container["volumeMounts"] = [m for m in container["volumeMounts"] if m["name"] not in gone]
    spec["volumes"] = [v for v in spec["volumes"] if v["name"] not in gone]
    return template


@settings(max_examples=200, deadline=None)
@given(templates(), injections())
def test_apply_is_idempotent_and_keeps_every_field(template, injection):
    before = deepcopy(template)
    try:
        wired = apply(template, 0, injection)
    except Refused as refused:
        assert refused.reason in ("PodConflict", "SharedMemoryTooSmall", "NodeMismatch")
        assert template == before
        return
    assert template == before
    again = apply(wired, 0, injection)
    assert json.dumps(again) == json.dumps(wired)
    assert json.dumps(apply(deepcopy(before), 0, injection)) == json.dumps(wired)
    assert is_kept(
        without_memory(before) if injection.shm and injection.shm.host else before, wired
    )
    container = wired["spec"]["containers"][0]
    effective = {e["name"]: e for e in container["env"]}
    for variable in injection.env:
        have = effective[variable["name"]]
        assert (have.get("valueFrom"), have.get("value") or "") == (
            variable.get("valueFrom"),
            variable.get("value") or "",
        )
