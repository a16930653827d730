"""Pods whose KV cache another injector configures."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from function.pods.other_injectors import FIELDS, INJECTORS, check, of_object, of_template
from function.problems import Refused
from function.reasons import Reason


def template(labels=None, annotations=None):
    return {"metadata": {"labels": labels or {}, "annotations": annotations or {}}}


KSERVE = {"apiVersion": "serving.kserve.io/v1alpha2", "kind": "LLMInferenceService"}


@pytest.mark.parametrize(
    ("pod", "manifest", "path", "message"),
    [
        (template({"kvcache.gpustack.ai/inject": "true"}), {},
         "metadata.labels[kvcache.gpustack.ai/inject]",
         "this pod also asks GPUStack for the cache of a KVCachePoolBinding "
         "(kvcache.gpustack.ai/inject), and two of them would overwrite each other; remove that "
         "label, or modelplane.ai/kv-offload-tier"),
        (template(annotations={"kvcache.gpustack.ai/binding": "chat"}), {},
         "metadata.annotations[kvcache.gpustack.ai/binding]", "remove that annotation"),
        (template({"lmcache.ai/lmcache-inject": "true"},
                  {"lmcache.ai/lmcache-engine": "my-cache"}), {},
         "metadata.labels[lmcache.ai/lmcache-inject]", "asks LMCache's operator for an LMCacheEng"),
        (template({"lmcache.ai/cacheblend-inject": True}), {},
         "metadata.labels[lmcache.ai/cacheblend-inject]", "for a CacheBlendEngine"),
        (template(), {**KSERVE, "spec": {"kvCacheOffloading": {"cpu": "10Gi"}}},
         "spec.kvCacheOffloading",
         "KServe configures offloading of this workload itself (spec.kvCacheOffloading), and two "
         "would overwrite each other; remove spec.kvCacheOffloading, or "
         "modelplane.ai/kv-offload-tier"),
        (template(), {**KSERVE, "spec": {"workload": {"kvCacheOffloading": {"cpu": "10Gi"}}}},
         "spec.workload.kvCacheOffloading", "KServe"),
    ],
)  # fmt: skip
def test_pods_of_other_injectors_are_out_of_scope(pod, manifest, path, message):
    with pytest.raises(Refused) as found:
        check(pod, manifest)
    assert found.value.reason == Reason.OUT_OF_SCOPE
    assert found.value.path == path and message in found.value.message


@pytest.mark.parametrize(
    ("pod", "manifest"),
    [
        (template(), {}),
        ({}, {}),
        ({"metadata": None}, {"kind": None, "apiVersion": None}),
        (template({"kvcache.gpustack.ai/inject": "false"}), {}),
        (template({"lmcache.ai/lmcache-inject": ""}, {"lmcache.ai/lmcache-engine": ""}), {}),
        (template({"app": "chat"}, {"modelplane.ai/kv-offload-tier": "chat"}), {}),
        (template(), {**KSERVE, "spec": {"kvCacheOffloading": None}}),
        (template(), {"apiVersion": "v1", "kind": "LLMInferenceService",
                      "spec": {"kvCacheOffloading": {"cpu": "1Gi"}}}),
    ],
)  # fmt: skip
def test_pods_without_another_injector_pass(pod, manifest):
    check(pod, manifest)


def test_rows_are_whole():
    for row in INJECTORS:
        assert row.source and row.owner and "/" in row.key
        assert row.place in ("labels", "annotations")
        value = row.values[0] if row.values else "x"
        assert of_template({"metadata": {row.place: {row.key: value}}}) == row
    for row in FIELDS:
        assert row.source and row.path[0] == "spec"  # type: ignore[attr-defined]


@given(
    st.recursive(
        st.none() | st.text(max_size=5),
        lambda x: (
            st.lists(x, max_size=2)
            | st.dictionaries(
                st.sampled_from(["metadata", "labels", "spec", "kind"]), x, max_size=3
            )
        ),
    )
)
def test_never_raises_on_nonsense(value):
    if isinstance(value, dict):
        of_template(value)
        of_object(value)
