"""A copy of a packaged Composition, its policy, and a rebuilt package."""

import gzip
from typing import Any

import pytest
import yaml

from kv_offload.render import files, packaged
from kv_offload.render.files import InputError

REVISION = {
    "apiVersion": "pkg.crossplane.io/v1",
    "kind": "ConfigurationRevision",
    "name": "platform-1",
    "controller": True,
}


def composition(**metadata: Any) -> dict[str, Any]:
    return {
        "apiVersion": "apiextensions.crossplane.io/v1",
        "kind": "Composition",
        "metadata": {"name": "replicas", **metadata},
        "spec": {
            "compositeTypeRef": {"apiVersion": "modelplane.ai/v1alpha1", "kind": "ModelReplica"},
            "mode": "Pipeline",
            "pipeline": [{"step": "compose", "functionRef": {"name": "function-modelplane"}}],
        },
    }


FROM_THE_CLUSTER = composition(
    annotations={
        "kubectl.kubernetes.io/last-applied-configuration": "{}",
        "platform.example.org/owner": "search",
    },
    labels={"provider": "gcp"},
    creationTimestamp="2026-01-01T00:00:00Z",
    generation=3,
    managedFields=[{"manager": "crossplane"}],
    ownerReferences=[REVISION],
    resourceVersion="1",
    uid="u",
)

OWNERS = {
    "a package's revision": (FROM_THE_CLUSTER, True),
    "nobody": (composition(), False),
    "something else": (composition(ownerReferences=[{"apiVersion": "v1"}]), False),
}


@pytest.mark.parametrize("name", OWNERS)
def test_resources_of_a_package_are_recognised(name: str) -> None:
    document, want = OWNERS[name]
    assert packaged.is_packaged(document) == want


def test_copy_has_no_cluster_written_fields() -> None:
    before = yaml.safe_dump(FROM_THE_CLUSTER)
    made = packaged.copied(FROM_THE_CLUSTER, "mine", "kv-offload", "function-kv-offload", "x")
    assert yaml.safe_dump(FROM_THE_CLUSTER) == before
    assert made == {
        "apiVersion": "apiextensions.crossplane.io/v1",
        "kind": "Composition",
        "metadata": {
            "name": "mine",
            "annotations": {
                "platform.example.org/owner": "search",
                "modelplane.ai/kv-offload-copy-of": "replicas@1346eb8b80db",
            },
            "labels": {"provider": "gcp"},
        },
        "spec": {
            **FROM_THE_CLUSTER["spec"],
            "pipeline": [
                {"step": "compose", "functionRef": {"name": "function-modelplane"}},
                {"step": "kv-offload", "functionRef": {"name": "function-kv-offload"}},
            ],
        },
    }


def test_digest_of_a_composition_ignores_cluster_fields() -> None:
    assert packaged.digest(composition(resourceVersion="2")) == packaged.digest(FROM_THE_CLUSTER)
    other = composition()
    other["spec"]["pipeline"][0]["step"] = "other"
    assert packaged.digest(other) != packaged.digest(FROM_THE_CLUSTER)


def test_policy_selects_the_copy_by_default() -> None:
    made = packaged.copied(FROM_THE_CLUSTER, "mine", "kv-offload", "function-kv-offload", "x")
    policy, binding = packaged.selection(made, "replicas")
    assert binding == {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingAdmissionPolicyBinding",
        "metadata": {"name": "mine"},
        "spec": {"policyName": "mine"},
    }
    assert policy["metadata"] == {"name": "mine"}
    assert policy["spec"] == {
        "failurePolicy": "Fail",
        "reinvocationPolicy": "Never",
        "matchConstraints": {
            "resourceRules": [
                {
                    "apiGroups": ["modelplane.ai"],
                    "apiVersions": ["*"],
                    "operations": ["CREATE", "UPDATE"],
                    "resources": ["*"],
                }
            ]
        },
        "matchConditions": [
            {"name": "kind", "expression": 'request.kind.kind == "ModelReplica"'},
            {
                "name": "names-no-other-composition",
                "expression": "!has(object.spec) || !has(object.spec.crossplane)"
                " || !has(object.spec.crossplane.compositionRef)"
                ' || object.spec.crossplane.compositionRef.name == "replicas"',
            },
        ],
        "mutations": [
            {
                "patchType": "ApplyConfiguration",
                "applyConfiguration": {
                    "expression": "Object{spec: Object.spec{crossplane: Object.spec.crossplane{"
                    'compositionRef: Object.spec.crossplane.compositionRef{name: "mine"}}}}'
                },
            }
        ],
    }


META = {
    "apiVersion": "meta.pkg.crossplane.io/v1",
    "kind": "Configuration",
    "metadata": {"name": "platform"},
}
XRD = {"apiVersion": "apiextensions.crossplane.io/v2", "kind": "CompositeResourceDefinition"}


@pytest.mark.parametrize("name", ["package.yaml", "package.gz"])
def test_a_package_gets_the_step(tmp_path, name: str) -> None:
    text = yaml.safe_dump_all([META, composition(), XRD]).encode()
    path = tmp_path / name
    path.write_bytes(gzip.compress(text) if name.endswith(".gz") else text)
    root = packaged.rebuilt(path, "ModelReplica", "kv-offload", "function-kv-offload")
    assert files.parse(root["crossplane.yaml"], "") == [META]
    changed, definition = files.parse(root["package.yaml"], "")
    assert definition == XRD
    assert [s["step"] for s in changed["spec"]["pipeline"]] == ["compose", "kv-offload"]


NO_PACKAGES = {
    "no metadata": (composition(), "not one Configuration package"),
    "a Function": ({**META, "kind": "Function"}, "not one Configuration package"),
    "no such kind": (META, "no Composition of ModelReplica"),
}


@pytest.mark.parametrize("name", NO_PACKAGES)
def test_file_that_is_no_package_is_refused(tmp_path, name: str) -> None:
    document, message = NO_PACKAGES[name]
    path = tmp_path / "package.yaml"
    path.write_text(yaml.safe_dump(document))
    with pytest.raises(InputError, match=message):
        packaged.rebuilt(path, "ModelReplica", "kv-offload", "function-kv-offload")


def test_broken_archive_is_refused(tmp_path) -> None:
    path = tmp_path / "package.gz"
    path.write_bytes(b"no gzip")
    with pytest.raises(InputError, match=r"package\.gz"):
        packaged.rebuilt(path, "ModelReplica", "kv-offload", "function-kv-offload")
