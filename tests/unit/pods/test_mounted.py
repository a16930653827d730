"""Text of a file that a container mounts, or the reason why it is unknown."""

from typing import Any

import pytest

from function.pods import mounted
from function.pods.siblings import SiblingResources

TEXTS = {"cm": {"vllm.yaml": "seed: 1", "other": "x"}, "two": None, "more": {"b.yaml": "b"}}
CM = {"name": "v", "configMap": {"name": "cm"}}
AT = {"name": "v", "mountPath": "/etc/vllm"}


def items(*pairs: tuple[str, str]) -> dict:
    return {
        "name": "v",
        "configMap": {"name": "cm", "items": [{"key": k, "path": p} for k, p in pairs]},
    }


def projected(*sources: dict) -> dict:
    return {"name": "v", "projected": {"sources": list(sources)}}


# name: (volumes, mounts, workingDir, path, the text; or words of why not)
CASES: dict[str, tuple] = {
    "a directory": ([CM], [AT], None, "/etc/vllm/vllm.yaml", "seed: 1"),
    "a key that is mounted alone": (
        [CM], [{"name": "v", "mountPath": "/etc/f.yaml", "subPath": "vllm.yaml"}], None,
        "/etc/f.yaml", "seed: 1",
    ),
    "items": ([items(("other", "a/f.yaml"))], [AT], None, "/etc/vllm/a/f.yaml", "x"),
    "items, and a subPath": (
        [items(("other", "a/f.yaml"))], [{**AT, "subPath": "a"}], None, "/etc/vllm/f.yaml", "x",
    ),
    "not among the items": (
        [items(("other", "f.yaml"))], [AT], None, "/etc/vllm/vllm.yaml", ("has no such text",),
    ),
    "beside the working directory": ([CM], [AT], "/etc", "vllm/vllm.yaml", "seed: 1"),
    "an unknown working directory": ([CM], [AT], None, "vllm/vllm.yaml", ("no volume",)),
    "the longest mount": (
        [CM, {"name": "w", "emptyDir": {}}], [AT, {"name": "w", "mountPath": "/etc/vllm/sub"}],
        None, "/etc/vllm/sub/vllm.yaml", ("(emptyDir)", "cannot be seen"),
    ),
    "nothing mounted": ([CM], [AT], None, "/etc/other/vllm.yaml", ("no volume",)),
    "a name that only begins alike": ([CM], [AT], None, "/etc/vllm2/vllm.yaml", ("no volume",)),
    "a claim": (
        [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}], [AT], None,
        "/etc/vllm/vllm.yaml", ("(persistentVolumeClaim)",),
    ),
    "a volume that is not there": ([], [AT], None, "/etc/vllm/f.yaml", ("does not define",)),
    "a subPathExpr": (
        [CM], [{**AT, "subPathExpr": "$(X)"}], None, "/etc/vllm/vllm.yaml", ("no volume",),
    ),
    "no such key": ([CM], [AT], None, "/etc/vllm/b.yaml", ("'cm' has no such text",)),
    "a ConfigMap from elsewhere": (
        [{"name": "v", "configMap": {"name": "mine"}}], [AT], None, "/etc/vllm/f.yaml",
        ("ConfigMap 'mine' holds it and is not given with the pods",),
    ),
    "two of one name": (
        [{"name": "v", "configMap": {"name": "two"}}], [AT], None, "/etc/vllm/f.yaml",
        ("two ConfigMaps", "differ"),
    ),
    "projected": (
        [projected({"configMap": {"name": "cm"}}, {"configMap": {"name": "more"}})], [AT], None,
        "/etc/vllm/b.yaml", "b",
    ),
    "projected twice": (
        [projected({"configMap": {"name": "cm"}}, {"configMap": {"name": "cm"}})], [AT], None,
        "/etc/vllm/vllm.yaml", ("has no such text",),
    ),
    "projected beside a secret": (
        [projected({"configMap": {"name": "cm"}}, {"secret": {"name": "s"}})], [AT], None,
        "/etc/vllm/vllm.yaml", ("more than ConfigMaps (secret)",),
    ),
    "rubbish": ([{"name": "v", "configMap": {"items": 1}}], [AT], None, "/etc/vllm/f", ("''",)),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_text_of_a_mounted_file(name):
    volumes, mounts, working, path, want = CASES[name]
    container = {"volumeMounts": mounts, **({"workingDir": working} if working else {})}
    template = {"spec": {"volumes": volumes, "containers": [container]}}
    if isinstance(want, str):
        assert mounted.text(template, container, path, TEXTS) == want
        return
    with pytest.raises(ValueError) as why:
        mounted.text(template, container, path, TEXTS)
    for said in want:
        assert said in str(why.value)


def config_map(name: str, namespace: str | None = None, **data: object) -> dict:
    metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


def on(cluster: str, manifest: dict, **more: Any) -> dict:
    spec = {"forProvider": {"manifest": manifest}, "providerConfigRef": {"name": cluster}, **more}
    return {"apiVersion": "kubernetes.m.crossplane.io/v1alpha1", "kind": "Object", "spec": spec}


def test_siblings_hold_only_mountable_config_maps():
    seen = SiblingResources.among(
        [
            on("here", config_map("a", x="1", y=2)),
            on("here", config_map("b", "team", x="1")),
            on("there", config_map("c", x="1")),
            config_map("d", x="1"),
            on("here", {**config_map("e", x="1"), "kind": "Secret"}),
            on("here", config_map("f", x="1")),
            on("here", config_map("f", x="1")),
            on("here", config_map("g", x="1")),
            on("here", config_map("g", x="2")),
            on("here", {**config_map("h"), "data": 1}),
            on("here", {**config_map("i", x="1"), "metadata": {}}),
            on("here", {**config_map("j", x="1"), "apiVersion": "example.org/v1"}),
            on("here", config_map("k", x="1"), managementPolicies=["Observe"]),
            on("here", config_map("l", x="1"), references=[{"patchesFrom": {"name": "x"}}]),
            on("here", config_map("m", x="1"), providerConfigRef={"name": "here", "kind": "Other"}),
        ]
    ).config_maps
    assert seen.mountable_by(on("here", {}), "default") == {
        "a": {"x": "1"}, "f": {"x": "1"}, "g": None, "h": {},
    }  # fmt: skip
    assert seen.mountable_by(on("here", {}), "team") == {"b": {"x": "1"}}
    assert seen.mountable_by(on("there", {}), "default") == {"c": {"x": "1"}}
    assert seen.mountable_by({}, "default") == {"d": {"x": "1"}}
