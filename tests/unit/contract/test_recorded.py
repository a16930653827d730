"""A record is data from outside: its shape, and what a backend of its name may inject."""

import json
from collections.abc import Iterator
from copy import deepcopy
from typing import Any

import pytest

from function.backends.lmcache import BACKEND as LMCACHE
from function.backends.lmcache import modules
from function.backends.mooncake import BACKEND as MOONCAKE
from function.contract.injection import Injection, SharedMemory
from function.contract.recorded import shaped
from tests.unit.backends import goldens as every_golden
from tests.unit.composers import documents as d
from tests.unit.composers.calls import call, observe

KEY, RECORD = "model-serving-main", "modelplane.ai/kv-offload-record"


def injections() -> Iterator[Any]:
    """Whatever the backends inject in their golden cases."""
    for goldens in every_golden.every():
        for case in goldens.cases:
            tier = goldens.of(case)
            for name, engine in goldens.engines.items():
                yield pytest.param(
                    goldens.backend, goldens.backend.inject(tier, engine), id=f"{case}-{name}"
                )


@pytest.mark.parametrize(("backend", "injection"), list(injections()))
def test_injections_of_backends_are_replayable(backend: Any, injection: Injection) -> None:
    assert backend.allows.problem(injection) == ""
    assert shaped(json.loads(json.dumps(injection.to_json()))) == injection


OURS = modules.module(modules.MP_CONNECTOR)
HOST = {"name": "kv-offload-x", "hostPath": {"path": "/"}}
FORGED = {
    "a directory of the node": Injection(
        volumes=(HOST,), mounts=({"name": "kv-offload-x", "mountPath": "/mnt/kv-offload"},)
    ),
    "a mount over the system": Injection(
        volumes=({"name": "kv-offload-x", "emptyDir": {}},),
        mounts=({"name": "kv-offload-x", "mountPath": "/etc"},),
    ),
    "a way out of its directory": Injection(
        volumes=({"name": "kv-offload-x", "emptyDir": {}},),
        mounts=({"name": "kv-offload-x", "mountPath": "/mnt/kv-offload/../../etc"},),
    ),
    "somebody's own volume": Injection(
        mounts=({"name": "secrets", "mountPath": "/mnt/kv-offload"},)
    ),
    "files anywhere": Injection(files={"ld.so.preload": "x"}, files_path="/etc"),
    "a capability": Injection(capabilities=("SYS_ADMIN",)),
    "a Secret": Injection(
        env=({"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}},)
    ),
    "a Secret by a name of ours": Injection(
        env=({"name": "PYTHONHASHSEED", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}},)
    ),
    "a variable": Injection(env=({"name": "LD_PRELOAD", "value": "/x.so"},)),
    "a variable where there is none": Injection(env_if_absent=({"name": "PATH", "value": "/x"},)),
    "a flag": Injection(flags={"--trust-remote-code": None}),
    "a connector": Injection(connector={"kv_connector": "ExampleConnector"}),
    "a module": Injection(
        connector={"kv_connector": "LMCacheMPConnector", "kv_connector_module_path": "evil"}
    ),
    "a program": Injection(
        files={f"{OURS.name}.py": f"{OURS.text}\nimport os"}, files_path="/etc/kv-offload/lmcache"
    ),
    "a file that Python reads at its start": Injection(
        files={"kv.pth": "import os"}, files_path="/etc/kv-offload/lmcache"
    ),
    "a file elsewhere": Injection(
        files={"../kv.yaml": "a: 1"}, files_path="/etc/kv-offload/lmcache"
    ),
    "a file from the root": Injection(
        files={"/etc/kv.yaml": "a: 1"}, files_path="/etc/kv-offload/lmcache"
    ),
    "another entry point": Injection(
        files={
            path: text.replace(":register", ":other")
            for path, text in modules.sglang_plugin().items()
        },
        files_path="/etc/kv-offload/lmcache",
    ),
    "a search path": Injection(search_paths={"PYTHONPATH": "/tmp"}),
    "another search path": Injection(search_paths={"LD_LIBRARY_PATH": "/etc/kv-offload"}),
    "a search path into a volume": Injection(
        files=modules.sglang_plugin(),
        files_path="/etc/kv-offload/lmcache",
        search_paths={"PYTHONPATH": "/mnt/kv-offload/pages"},
        volumes=({"name": "kv-offload-x", "persistentVolumeClaim": {"claimName": "mine"}},),
        mounts=({"name": "kv-offload-x", "mountPath": "/mnt/kv-offload/pages"},),
    ),
    "a volume in a search path": Injection(
        files=modules.sglang_plugin(),
        files_path="/etc/kv-offload/lmcache",
        search_paths={"PYTHONPATH": "/etc/kv-offload/lmcache"},
        volumes=({"name": "kv-offload-x", "persistentVolumeClaim": {"claimName": "mine"}},),
        mounts=({"name": "kv-offload-x", "mountPath": "/etc/kv-offload//lmcache/torch"},),
    ),
    "a label": Injection(labels={"app": "other"}),
    "a claim": Injection(claims=({"name": "gpus", "resourceClaimTemplateName": "all"},)),
    "a port": Injection(ports=({"name": "x", "containerPort": 22},)),
    "a wait": Injection(waits=({"name": "x", "addresses": ["a:1"], "seconds": 1},)),
    "more memory's name": Injection(resources={"memory": 1}),
}


@pytest.mark.parametrize("name", FORGED)
def test_injection_that_no_backend_makes_is_named(name: str) -> None:
    for backend in (goldens.backend for goldens in every_golden.every()):
        if name != "a module" or backend is LMCACHE:
            assert backend.allows.problem(FORGED[name]), backend.name


def test_host_shared_memory_is_limited_to_backends_that_use_it() -> None:
    wanted = Injection(shm=SharedMemory(host=True))
    assert LMCACHE.allows.problem(wanted) == ""
    assert MOONCAKE.allows.problem(wanted) == "the node's /dev/shm"


SHAPES: dict[str, Any] = {
    "no object": [],
    "an unknown field": {"privileged": True},
    "a text for a number": {"memory_bytes": "1Gi"},
    "a bool for a number": {"memory_bytes": True},
    "a negative number": {"memory_bytes": -1},
    "a list for a text": {"connector": {"kv_connector": []}},
    "an unknown source": {"env": [{"name": "A", "valueFrom": {"configMapKeyRef": {}}}]},
    "an unknown volume": {"volumes": [{"name": "a", "csi": {"driver": "x"}}]},
    "a resource beside the pods": {"companions": {"x": {"apiVersion": "v1", "kind": "Pod"}}},
    "a wait for ever": {"waits": [{"name": "a", "addresses": ["b:1"], "seconds": 10**6}]},
    "a wait with a program": {"waits": [{"name": "a", "command": ["sh"]}]},
    "a number that is none": {"resources": {"a/b": float("inf")}},
}


@pytest.mark.parametrize("name", SHAPES)
def test_malformed_records_are_refused_with_their_path(name: str) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        shaped(SHAPES[name])


@pytest.mark.parametrize("name", FORGED)
def test_forged_record_is_never_applied(name: str) -> None:
    """Not where the tier is away, and not where it is ready: its pods are judged anew."""
    ready = d.requirements(d.ready_tier())
    first = call(d.replica(), desired={KEY: d.engine()}, required=ready)
    observed = deepcopy(observe(first))
    annotations = observed[KEY]["metadata"]["annotations"]
    record = json.loads(annotations[RECORD])
    record["templates"]["spec.template"]["injection"] = FORGED[name].to_json()
    annotations[RECORD] = json.dumps(record)
    again = call(d.replica(), desired={KEY: d.engine()}, observed=observed, required=ready)
    assert d.wired_pod(again.desired[KEY]) == d.wired_pod(first.desired[KEY])
    assert "never injects" in again.messages["KVOffloadReady"]
    gone = call(
        d.replica(), desired={KEY: d.engine()}, observed=observed, required=d.requirements()
    )
    assert d.wired_pod(gone.desired[KEY]) == d.wired_pod(d.engine())
    assert gone.conditions["KVOffloadReady"] == ("False", "TierNotFound")
