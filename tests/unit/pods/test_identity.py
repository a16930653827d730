"""Which engines get the same cache identity, and which must not."""

import pytest

from function.engines.registry import kind
from function.engines.sglang.flags import TABLE as SGLANG_OPTIONS
from function.engines.vllm.flags import TABLE as VLLM_OPTIONS
from function.pods.identity import Surroundings, identity

PVC = {"name": "model-cache", "persistentVolumeClaim": {"claimName": "llama"}}
MOUNT = {"name": "model-cache", "mountPath": "/mnt/models"}


def compute(flags=None, *, volumes=(), mounts=(), env=(), image="vllm/vllm-openai:v0.33.0", **more):
    container = {"name": "engine", "image": image, "volumeMounts": list(mounts), "env": list(env)}
    template = {"spec": {"containers": [container], "volumes": list(volumes)}}
    container |= {"envFrom": list(more.pop("env_from", ()))}
    own = {key: more.pop(key) for key in ("engine", "version", "declared", "hidden") if key in more}
    around = Surroundings(**{"namespace": "default", **more})
    given = {"engine": "vLLM", "flags": flags or {}, **own}
    return identity(template, container, **given, around=around)


def on_volume(source, path="/mnt/models", **mount):
    name = {"name": "v"}
    return compute(
        {"--model": path},
        volumes=[{**name, **source}],
        mounts=[{**name, "mountPath": "/mnt/models", **mount}],
    )


BEHIND = {
    "a claim": (on_volume({"persistentVolumeClaim": {"claimName": "c"}}), "pvc default/c/.", True),
    "below a claim": (
        on_volume({"persistentVolumeClaim": {"claimName": "c"}}, "/mnt/models/a/../b"),
        "pvc default/c/b",
        True,
    ),
    "a subPath": (
        on_volume({"persistentVolumeClaim": {"claimName": "c"}}, subPath="x/y"),
        "pvc default/c/x/y",
        True,
    ),
    "a node's folder": (on_volume({"hostPath": {"path": "/data"}}), "hostPath /data/.", True),
    "an image volume": (
        on_volume({"image": {"reference": "reg/w:v1"}}),
        "image reg/w:v1 .",
        True,
    ),
    "an image volume that moves": (
        on_volume({"image": {"reference": "reg/w:latest"}}),
        "image reg/w:latest .",
        False,
    ),
    "NFS": (on_volume({"nfs": {"server": "s", "path": "/e"}}), "nfs s:/e/.", True),
    "an emptyDir that an init container fills": (on_volume({"emptyDir": {}}), "emptyDir .", False),
    "a subPathExpr": (
        on_volume({"persistentVolumeClaim": {"claimName": "c"}}, subPathExpr="$(X)"),
        "volume v",
        False,
    ),
    "the image itself": (
        compute({"--model": "/opt/m"}),
        "image vllm/vllm-openai:v0.33.0 /opt/m",
        True,
    ),
    "the image itself, moving": (
        compute({"--model": "/opt/m"}, image="mine:latest"),
        "image mine:latest /opt/m",
        False,
    ),
    "KServe's own field": (
        compute({"--model": "/mnt/models"}, model_source="hf://org/m"),
        "source hf://org/m",
        True,
    ),
    "a repository": (compute({"--model": "org/m"}), "repository org/m", True),
    "a relative path": (compute({"--model": "./m"}), "path ./m", False),
}


@pytest.mark.parametrize("name", BEHIND)
def test_model_identity_comes_from_its_volume(name):
    got, wanted, known = BEHIND[name]
    assert dict(got.facts)["model"] == wanted
    assert got.known is known
    assert bool(got.unknown) is not known


def test_longest_mount_path_wins():
    got = compute(
        {"--model": "/mnt/models/a/b"},
        volumes=[PVC, {"name": "in", "persistentVolumeClaim": {"claimName": "inner"}}],
        mounts=[
            {"name": "in", "mountPath": "/mnt/models/a"},
            MOUNT,
            {"name": "n", "mountPath": "/m"},
        ],
    )
    assert dict(got.facts)["model"] == "pvc default/inner/b"


BASE = {"--model": "org/m"}

SAME = {
    "defaults said aloud": {"--dtype": "auto", "--tensor-parallel-size": "1"},
    "what does not touch the cache": {"--port": "8000", "--max-num-seqs": "8"},
    "another name for clients": {"--served-model-name": "other"},
    "the default hash": {"--prefix-caching-hash-algo": "sha256"},
}
OTHER = {
    "weights": {"--model": "org/other"},
    "revision": {"--revision": "abc"},
    "dtype": {"--dtype": "float16"},
    "cache dtype": {"--kv-cache-dtype": "fp8"},
    "quantization": {"--quantization": "awq"},
    "ranks": {"--tensor-parallel-size": "2"},
    "hash": {"--prefix-caching-hash-algo": "xxhash"},
    "overrides": {"--hf-overrides": '{"rope_theta":1}'},
    "drafts": {"--speculative-config": "{}"},
    "scales": {"--calculate-kv-scales": None},
    "the loader's settings": {"--model-loader-extra-config": '{"a":1}'},
    "the model's class": {"--model-class-overrides": '{"A":"b:C"}'},
    "the code that comes with it": {"--code-revision": "abc"},
    "the implementation": {"--model-impl": "transformers"},
    "layers without blocks of their own": {"--kv-sharing-fast-prefill": None},
    "no sliding window": {"--disable-sliding-window": None},
    "how ranks cut a block": {"--dcp-kv-cache-interleave-size": "8"},
    "what images become": {"--mm-processor-kwargs": '{"fps":1}'},
}


@pytest.mark.parametrize("name", SAME)
def test_same_identity(name):
    assert compute({**BASE, **SAME[name]}).digest == compute(BASE).digest


@pytest.mark.parametrize("name", OTHER)
def test_different_identity(name):
    got = compute({**BASE, **OTHER[name]})
    assert got.known
    assert got.digest != compute(BASE).digest


def test_other_weights_at_one_path_change_the_identity():
    flags = {"--model": "/mnt/models"}
    one = compute(flags, volumes=[PVC], mounts=[MOUNT])
    two = compute(
        flags,
        volumes=[{**PVC, "persistentVolumeClaim": {"claimName": "qwen"}}],
        mounts=[MOUNT],
    )
    assert one.model == two.model == "/mnt/models"
    assert one.digest != two.digest
    assert compute(flags, volumes=[PVC], mounts=[MOUNT]) == one
    elsewhere = compute(flags, volumes=[PVC], mounts=[MOUNT], namespace="other")
    assert elsewhere.digest != one.digest


def test_vllm_and_sglang_identities_differ():
    sglang = compute({"--model-path": "org/m"}, engine="SGLang")
    assert (sglang.model, sglang.known) == ("org/m", True)
    assert sglang.digest != compute(BASE).digest


def test_memory_layout_changes_the_identity() -> None:
    plain = compute({"--model-path": "org/m"}, engine="SGLang")
    said = {"--hicache-mem-layout": "page_first", "--hicache-io-backend": "kernel"}
    assert compute({"--model-path": "org/m", **said}, engine="SGLang") == plain
    for other in ({"--hicache-mem-layout": "layer_first"}, {"--hicache-io-backend": "direct"}):
        assert compute({"--model-path": "org/m", **other}, engine="SGLang").digest != plain.digest


def test_version_changes_the_identity_of_persistent_caches():
    assert compute(BASE, version="0.33.0").digest == compute(BASE, version="0.32.0").digest
    one = compute(BASE, version="0.33.0", outlives_pods=True)
    assert one.digest != compute(BASE, version="0.32.0", outlives_pods=True).digest
    assert compute(BASE, outlives_pods=True, image="mine:v7").known
    assert not compute(BASE, outlives_pods=True, image="mine:latest").known


def test_unknown_names_the_unreadable_setting():
    assert compute({}).unknown == "the model argument"
    assert compute({"--model": None}).unknown == "the model argument"
    assert compute({**BASE, "--dtype": None}).unknown == "--dtype"
    assert compute({**BASE, "--revision": None}).unknown == "--revision"
    hidden = [
        {"name": "PYTHONHASHSEED", "valueFrom": {"configMapKeyRef": {"name": "c", "key": "k"}}}
    ]
    assert compute(BASE, env=hidden).unknown == "env PYTHONHASHSEED"


def test_the_seed_that_wiring_sets_does_not_move_the_identity():
    seed = [{"name": "PYTHONHASHSEED", "value": "0"}]
    assert compute(BASE, env=seed).digest == compute(BASE).digest
    other = [{"name": "PYTHONHASHSEED", "value": "7"}]
    assert compute(BASE, env=other).digest != compute(BASE).digest


# Variables -> whether the identity is another than without them, and what of it is unknown.
ENV = {
    "the usual registry": ({"HF_ENDPOINT": "https://huggingface.co"}, False, ""),
    "a mirror": ({"HF_ENDPOINT": "https://mirror"}, True, ""),
    "another registry": ({"VLLM_USE_MODELSCOPE": "True"}, True, ""),
    "not that registry": ({"VLLM_USE_MODELSCOPE": "False"}, False, ""),
    "without MLA": ({"VLLM_MLA_DISABLE": "1"}, True, ""),
    "layers of each stage": ({"VLLM_PP_LAYER_PARTITION": "12,20"}, True, ""),
    "quantised by a variable": ({"VLLM_HUMMING_ONLINE_QUANT_CONFIG": "{}"}, True, ""),
    "a cache, with downloads": ({"HF_HOME": "/mnt/models"}, False, ""),
    "what the cache holds": ({"HF_HOME": "/mnt/models", "HF_HUB_OFFLINE": "1"}, True, ""),
    "online, said aloud": ({"HF_HOME": "/mnt/models", "HF_HUB_OFFLINE": "0"}, False, ""),
    "offline, in nobody's volume": (
        {"TRANSFORMERS_OFFLINE": "1"},
        True,
        "what is at the relative path ~/.cache/huggingface/hub",
    ),
}


@pytest.mark.parametrize("name", ENV)
def test_variables_that_change_the_identity(name):
    values, moves, unknown = ENV[name]
    env = [{"name": key, "value": value} for key, value in values.items()]
    got = compute(BASE, env=env, volumes=[PVC], mounts=[MOUNT])
    assert (got.digest != compute(BASE).digest, got.unknown) == (moves, unknown)


def test_offline_model_identity_comes_from_its_volume():
    env = [
        {"name": "HF_HUB_CACHE", "value": "/mnt/models"},
        {"name": "HF_HUB_OFFLINE", "value": "1"},
    ]
    other = {**PVC, "persistentVolumeClaim": {"claimName": "qwen"}}
    one, two = (compute(BASE, env=env, volumes=[v], mounts=[MOUNT]) for v in (PVC, other))
    assert one.known and two.known
    assert one.digest != two.digest


def test_relative_model_path_starts_at_the_working_directory():
    def at(model, **container):
        template = {"spec": {"volumes": [PVC]}}
        engine = {"image": "vllm/vllm-openai:v0.33.0", "volumeMounts": [MOUNT], **container}
        got = identity(
            template,
            engine,
            engine="vLLM",
            flags={"--model": model},
            around=Surroundings(namespace="default"),
        )
        return dict(got.facts)["model"], got.known

    assert at("llama") == ("repository llama", True)
    assert at("llama", workingDir="/mnt/models") == ("pvc default/llama/llama", True)
    assert at("llama", workingDir="/elsewhere") == ("repository llama", True)
    assert at("./llama", workingDir="/mnt/models") == ("pvc default/llama/llama", True)
    assert at("./llama") == ("path ./llama", False)


def test_sglang_attention_ranks_change_the_identity():
    def sglang(**flags):
        named = {f"--{name.replace('_', '-')}": value for name, value in flags.items()}
        return compute({"--model-path": "m", **named}, engine="SGLang").digest

    assert sglang(dp_size="2") == sglang()
    assert sglang(enable_dp_attention=None, dp_size="2") != sglang(enable_dp_attention=None)


# Of SGLang: (flags, variables, whether the identity is another than without them)
OF_SGLANG = {
    "the pool's layout": ({}, {"SGLANG_DSV4_KV_LAYOUT": "v41_new"}, True),
    "that layout, said aloud": ({}, {"SGLANG_DSV4_KV_LAYOUT": "v4"}, False),
    "heads first": ({}, {"SGLANG_USE_HND_KVCACHE": "1"}, True),
    "a layout of ROCm's": ({}, {"SGLANG_AITER_KV_CACHE_LAYOUT": "vectorized_5d"}, True),
    "the state's dtype": ({}, {"SGLANG_MAMBA_CONV_DTYPE": "float16"}, True),
    "quantised by a variable": ({}, {"SGLANG_INT4_WEIGHT": "1"}, True),
    "less is quantised": ({}, {"SGLANG_FP8_IGNORED_LAYERS": "model.layers.0"}, True),
    "code of one's own": ({}, {"SGLANG_EXTERNAL_MODEL_PACKAGE": "mine"}, True),
    "layers of each stage": ({}, {"SGLANG_PP_LAYER_PARTITION": "12,20"}, True),
    "what does not touch the cache": ({}, {"SGLANG_VLM_CACHE_SIZE_MB": "1"}, False),
    "an attention backend": ({"--dsv4-attn-backend": "trtllm"}, {}, True),
    "sparse attention": ({"--dsa-decode-backend": "trtllm"}, {}, True),
    "one pool for all": ({"--enable-unified-memory": None}, {}, True),
    "layers over ranks": ({"--enable-dsa-cache-layer-split": None}, {}, True),
    "quantised, before 0.5.19": ({"--torchao-config": "int4wo-128"}, {}, True),
    "sparse attention's older name": ({"--nsa-decode-backend": "trtllm"}, {}, True),
    "prefill over ranks, by an older name": ({"--enable-prefill-context-parallel": None}, {}, True),
    "experts on the CPU": ({"--kt-weight-path": "/int4"}, {}, True),
    "restored weights": ({"--modelopt-checkpoint-restore-path": "/w"}, {}, True),
}


@pytest.mark.parametrize("name", OF_SGLANG)
def test_flags_that_determine_sglang_pages(name):
    given, values, moves = OF_SGLANG[name]
    env = [{"name": key, "value": value} for key, value in values.items()]
    plain = compute({"--model-path": "m"}, engine="SGLang")
    got = compute({"--model-path": "m", **given}, env=env, engine="SGLang")
    assert (got.digest != plain.digest, got.known) == (moves, True)


@pytest.mark.parametrize(
    "engine, options",
    [("vLLM", VLLM_OPTIONS), ("SGLang", SGLANG_OPTIONS)],
    ids=["vLLM", "SGLang"],
)
def test_identity_flags_exist_in_the_engine(engine, options):
    arities = {option.name: option.arity for option in options.every}
    (inputs,) = kind(engine).identity
    for name in inputs.flags.keys() - inputs.gone:
        assert (arities[name.replace("--no-", "--")] == "0") == (name in inputs.switches), name
    assert set(inputs.length) <= arities.keys()


PROD = {"declared": "team-a/prod"}

# What two engines that declare the same must have in common: flags, and the rest.
DECLARED = {
    "dtype": ({"--dtype": "float16"}, {}),
    "quantization": ({"--quantization": "awq"}, {}),
    "overrides": ({"--hf-overrides": '{"rope_theta":1}'}, {}),
    "ranks": ({"--tensor-parallel-size": "2"}, {}),
    "revision": ({"--revision": "abc"}, {}),
    "variables": ({}, {"env": [{"name": "VLLM_KV_CACHE_LAYOUT", "value": "HND"}]}),
    "engine": ({}, {"engine": "SGLang"}),
    "version": ({}, {"version": "0.32.0"}),
    "the name's namespace": ({}, {"declared": "team-b/prod"}),
    "name": ({}, {"declared": "team-a/test"}),
    "tenant": ({}, {"tenant": "team-a"}),
}


@pytest.mark.parametrize("name", DECLARED)
def test_a_declared_identity_replaces_the_source_alone(name):
    flags, more = DECLARED[name]
    common = {"version": "0.33.0", "outlives_pods": True, **PROD}
    one = compute({"--model": "/mnt/models"}, **common)
    other = compute({"--model": "/mnt/models", **flags}, **{**common, **more})
    assert one.known and other.known
    assert one.digest != other.digest


# What a declared identity does not answer for: flags, the rest, and what is unknown.
UNREAD = {
    "a flag": ({"--kv-cache-dtype": None}, {}, "--kv-cache-dtype"),
    "the revision": ({"--revision": None}, {}, "--revision"),
    "hidden flags": ({}, {"hidden": ["$EXTRA"]}, "the flags in $EXTRA"),
    "a variable": (
        {},
        {"env": [{"name": "PYTHONHASHSEED", "valueFrom": {"fieldRef": {}}}]},
        "env PYTHONHASHSEED",
    ),
    "version": (
        {},
        {"image": "vllm/vllm-openai:latest", "outlives_pods": True},
        "the engine's version (annotate modelplane.ai/kv-offload-engine-version)",
    ),
}


@pytest.mark.parametrize("name", UNREAD)
def test_a_declared_identity_answers_for_no_other_value(name):
    flags, more, unknown = UNREAD[name]
    found = compute({"--model": "/mnt/models", **flags}, **PROD, **more)
    assert (found.known, found.unknown) == (False, unknown)


def test_equal_declared_identities_are_equal_wherever_the_weights_are():
    one = compute({"--model": "/mnt/models"}, volumes=[PVC], mounts=[MOUNT], **PROD)
    mirror = [{"name": "HF_ENDPOINT", "value": "https://mirror"}]
    for other in (
        compute({"--model": "/elsewhere"}, **PROD),
        compute({"--model": "org/m", "--download-dir": "/d"}, env=mirror, **PROD),
        compute({"--model": None}, **PROD),
    ):
        assert (other.digest, other.known) == (one.digest, True)
    assert one.facts == (("declared", "team-a/prod"), ("engine", "vLLM"))


FROM = [{"configMapRef": {"name": "settings"}}]


def test_sources_of_variables_that_cannot_be_seen_are_told_apart():
    def of(sources, **more):
        return compute(BASE, env_from=sources, **more)

    secret = [{"secretRef": {"name": "settings"}}]
    prefixed = [{"prefix": "VLLM_", **FROM[0]}]
    found = [of(FROM), of(secret), of(prefixed), of([]), of(FROM, namespace="other")]
    assert len({each.digest for each in found}) == len(found)
    assert all(each.known for each in found)
    assert of(FROM).digest == found[0].digest
    assert of(["nonsense"]).digest == of([]).digest


def test_what_kserve_downloads_is_the_source_of_the_weights():
    def of(**value):
        return compute({"--model": "/mnt/models"}, env=[{"name": "STORAGE_URI", **value}])

    found = [of(value="hf://org/a"), of(value="hf://org/b"), compute({"--model": "/mnt/models"})]
    assert len({each.digest for each in found}) == len(found)
    assert of(valueFrom={"secretKeyRef": {}}).unknown == "env STORAGE_URI"


def test_storage_uri_names_what_kserve_downloads_and_no_more():
    def of(path: str, uri: str = "hf://org/a", namespace: str = "team-a"):
        env = [{"name": "STORAGE_URI", "value": uri}]
        return compute({"--model": path}, env=env, namespace=namespace, cluster="gpu").facts

    claim = dict(of("/mnt/models/x", "pvc://weights/y"))
    assert claim["model"] == "pvc team-a/weights/y/x"
    assert "cluster" in claim
    assert of("/mnt/models", "pvc://w") != of("/mnt/models", "pvc://w", "team-b")
    paths = ("/mnt/models", "/mnt/models/one", "/mnt/models/two", "/opt/one", "/opt/two")
    assert len({of(path) for path in paths}) == len(paths)
    assert of("/opt/one") == of("/opt/one", "hf://org/b")


LONG = {"--max-model-len": "131072"}

# Whether the largest context is part of a model's identity.
LENGTH = {
    "microsoft/Phi-3-mini-128k-instruct": True,
    "microsoft/Phi-3.5-mini-instruct": True,
    "microsoft/Phi-3.5-MoE-instruct": True,
    "microsoft/Phi-4-mini-instruct": True,
    "openbmb/MiniCPM3-4B": True,
    "openbmb/MiniCPM4-8B": True,
    "org/nobody-knows-it": True,
    "/mnt/models": True,
    "/models/Llama-3-8B": True,
    "microsoft/Phi-3-mini-4k-instruct": False,
    "microsoft/phi-4": False,
    "meta-llama/Llama-3.1-8B-Instruct": False,
    "Qwen/Qwen3-32B": False,
}


@pytest.mark.parametrize("model", LENGTH)
def test_context_length_counts_where_rope_factors_may_follow_it(model):
    at = {"volumes": [{"name": "v", "nfs": {"server": "s", "path": "/"}}]}
    at["mounts"] = [{"name": "v", "mountPath": "/"}]
    plain, long = compute({"--model": model}, **at), compute({"--model": model, **LONG}, **at)
    assert plain.known and long.known
    assert (long.digest != plain.digest) is LENGTH[model]
    assert compute({"--model": model, "--max-model-len": "4096"}, **at).digest != long.digest or (
        not LENGTH[model]
    )


def test_an_unreadable_context_length_is_unknown_for_long_rope_alone():
    unread = {"--max-model-len": None}
    assert compute({"--model": "microsoft/Phi-4-mini-instruct", **unread}).unknown == (
        "--max-model-len"
    )
    unlisted = {"--model": "org/nobody-knows-it"}
    got = compute({**unlisted, **unread})
    assert got.known and got.digest != compute(unlisted).digest
    assert compute({"--model": "Qwen/Qwen3-32B", **unread}).known


# What was outside the identity: flags and variables.
OUTSIDE = {
    "code of the repository": ({"--trust-remote-code": None}, {}),
    "a platform's own settings": ({"--additional-config": '{"a":1}'}, {}),
    "another place of downloads": ({"--download-dir": "/d"}, {}),
    "without the hybrid manager": ({"--disable-hybrid-kv-cache-manager": None}, {}),
    "with it, whatever the connector": ({"--no-disable-hybrid-kv-cache-manager": None}, {}),
    "plugins": ({}, {"VLLM_PLUGINS": "mine"}),
}


@pytest.mark.parametrize("name", OUTSIDE)
def test_what_may_change_blocks_changes_the_identity(name):
    flags, values = OUTSIDE[name]
    env = [{"name": key, "value": value} for key, value in values.items()]
    got = compute({**BASE, **flags}, env=env)
    assert got.known
    assert got.digest != compute(BASE).digest


def test_a_value_cannot_pass_for_another_fact():
    forged = compute({**BASE, "--quantization": "awq\0--x=y"})
    assert forged.digest != compute({**BASE, "--quantization": "awq"}).digest
    two = {**BASE, "--dtype": "half\0--quantization=awq"}
    assert (
        compute(two).digest != compute({**BASE, "--dtype": "half", **OTHER["quantization"]}).digest
    )


def test_layouts_that_connectors_ask_for_change_the_identity():
    heads_first = compute(BASE, layouts=frozenset({"LBHNC"}))
    assert heads_first.known
    assert heads_first.digest != compute(BASE).digest


def test_names_of_one_cluster_mean_other_things_on_another():
    def on(cluster, **more):
        return compute({"--model": "/mnt/models"}, cluster=cluster, **more).digest

    claim = {"volumes": [PVC], "mounts": [MOUNT]}
    folder = {**claim, "volumes": [{"name": PVC["name"], "hostPath": {"path": "/models"}}]}
    for local in (claim, folder):
        assert len({on("a", **local), on("b", **local), on("", **local)}) == 3
    assert compute(BASE, cluster="a").digest == compute(BASE).digest
    hidden = {"env_from": FROM}
    assert compute(BASE, cluster="a", **hidden) != compute(BASE, cluster="b", **hidden)


def test_what_a_store_holds_changes_the_identity():
    assert compute(BASE, store="Redis chat FP8").digest != compute(BASE).digest


def test_digests_are_pinned():
    """Directories and prefixes are named after it: another digest is a cold cache."""
    assert compute(BASE).digest == "5a567ff5436c"


def test_tenants_have_different_identities():
    for declared in ("", "my-model"):
        plain, none, a, b = (
            compute({"--model": "m"}, declared=declared, **tenant)
            for tenant in ({}, {"tenant": ""}, {"tenant": "team-a"}, {"tenant": "team-b"})
        )
        assert plain == none
        assert len({plain.digest, a.digest, b.digest}) == 3
        assert dict(a.facts) == dict(plain.facts) | {"tenant": "team-a"}
