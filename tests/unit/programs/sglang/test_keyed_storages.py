"""The plugin that SGLang loads for its storages, over stand-ins for SGLang's own.

What SGLang really resolves is the conformance suite's to say, and what an engine answers with it
the serving suite's.
"""

import json
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

import programs
from function.backends import hierarchy

TEXT = programs.module("sglang/keyed_storages.py")
CONFIG = {"architectures": ["A"], "torch_dtype": "bfloat16", "_name_or_path": "/x"}
LONG = CONFIG | {"rope_scaling": {"rope_type": "longrope"}}
TAG = {"extra_backend_tag": "0123456789ab"}


class Files:
    """HiCacheFile and HiCacheNixl, as far as ours relies on them."""

    def __init__(self, config: Any):
        self.config_suffix = f"_{config.model_name}_0_1"


class Pool:
    """MooncakeStore from 0.5.18 on."""

    def __init__(self, config: Any):
        tag = (config.extra_config or {}).get("extra_backend_tag")
        self.config_prefix = "_".join(filter(None, (tag, config.model_name)))


class Tagged:
    """MooncakeStore before 0.5.18: its keys hold the tag only."""

    def __init__(self, config: Any):
        self.extra_backend_tag = (config.extra_config or {}).get("extra_backend_tag")


class Elsewhere:
    """A storage whose keys take the name from somewhere else."""

    def __init__(self, _: Any):
        self.config_suffix = "_model"


class Racing(Files):
    """HiCacheFile that looks for its folder just before another stage makes it."""

    def __init__(self, config: Any):
        if not getattr(config, "raced", False):
            config.raced = True
            raise FileExistsError(17, "File exists", "/cache")
        super().__init__(config)


class Factory:
    @classmethod
    def create_backend(cls, backend_name: str, storage_config: Any, mem_pool_host: Any) -> Any:
        kinds = {
            "file": Files,
            "mooncake": Pool,
            "older": Tagged,
            "elsewhere": Elsewhere,
            "racing": Racing,
        }
        return kinds[backend_name](storage_config)


def arguments(model: Any, **more: Any) -> Any:
    given = {
        "model_path": str(model),
        "revision": None,
        "download_dir": None,
        "load_format": "auto",
        "random_seed": 1,
        "context_length": 8192,
        "speculative_draft_model_path": None,
        "speculative_draft_model_revision": None,
        "kv_cache_dtype": "bfloat16",
        "attention_backend": "fa3",
    }
    return SimpleNamespace(**given | more)


def pool(**more: Any) -> Any:
    return SimpleNamespace(**{"layout": "page_first", "dtype": "bf16", "page_size": 64} | more)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return model(tmp_path / "model")


def model(place: Path, config: Any = CONFIG, weights: bytes = b"weights") -> Path:
    place.mkdir(exist_ok=True)
    (place / "config.json").write_text(json.dumps(config))
    (place / "model.bin").write_bytes(weights)
    return place


@pytest.fixture(autouse=True)
def sglang(monkeypatch: pytest.MonkeyPatch) -> None:
    names = (
        "sglang sglang.srt sglang.srt.arg_groups sglang.srt.mem_cache sglang.srt.mem_cache.storage"
    )
    for name in names.split():
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    sys.modules["sglang"].__dict__["__version__"] = "0.5.23"
    distributed = SimpleNamespace(is_initialized=lambda: False)
    stubs = {"torch": SimpleNamespace(distributed=distributed), "torch.distributed": distributed}
    for name, stub in stubs.items():
        monkeypatch.setitem(sys.modules, name, stub)  # type: ignore[arg-type]
    for name, found in (
        ("sglang.srt.arg_groups.overrides", {"resolved_view": lambda given: given}),
        ("sglang.srt.mem_cache.storage.backend_factory", {"StorageBackendFactory": Factory}),
    ):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
        sys.modules[name].__dict__.update(found)
    monkeypatch.setattr(Factory, "create_backend", Factory.__dict__["create_backend"])


def created(
    monkeypatch: pytest.MonkeyPatch, given: Any, kind: str = "file", extra: Any = None
) -> Any:
    """A storage that SGLang creates once it has loaded the plugin."""
    monkeypatch.setitem(sys.modules, "sglang.srt.runtime_context", ModuleType("runtime_context"))
    sys.modules["sglang.srt.runtime_context"].__dict__["get_server_args"] = lambda: given
    monkeypatch.setattr(Factory, "create_backend", Factory.__dict__["create_backend"])
    found = ModuleType("ours")
    exec(compile(TEXT, "ours.py", "exec"), found.__dict__)
    create = Factory.create_backend
    found.__dict__["register"]()
    try:
        config = SimpleNamespace(model_name="served", extra_config=extra)
        return Factory.create_backend(kind, config, pool())
    finally:
        Factory.create_backend = create  # type: ignore[method-assign]


def digest(given: Any, of: Any = None) -> str:
    found = ModuleType("ours")
    exec(compile(TEXT, "ours.py", "exec"), found.__dict__)
    return str(found.__dict__["resolved"](given, of or pool()))


def of_ranks(
    monkeypatch: pytest.MonkeyPatch,
    given: Any,
    *others: tuple[str, str],
    stages: tuple[str, ...] = (),
    of: Any = None,
) -> str:
    """Return the digest in one rank of several. `others`: what the others of its stage bring;
    `stages`: what a later stage's ranks bring."""

    def gather(rows: list[Any], mine: Any, group: str) -> None:
        if group == "tensor":
            rows[:] = [mine, *((*other, mine[2]) for other in others)]
        else:
            rows[:] = [mine, *([(text, "", [1, 2])] for text in stages)]

    groups = {
        f"get_{name}_group": lambda kind=kind, rows=rows: SimpleNamespace(
            world_size=len(rows) + 1, cpu_group=kind
        )
        for name, kind, rows in (("tp", "tensor", others), ("pp", "pipeline", stages))
    }
    distributed: Any = sys.modules["torch.distributed"]
    distributed.is_initialized, distributed.all_gather_object = lambda: True, gather
    state: Any = SimpleNamespace(**groups)
    monkeypatch.setitem(
        sys.modules, "sglang.srt.distributed", SimpleNamespace(parallel_state=state)
    )  # type: ignore[arg-type]
    monkeypatch.setitem(sys.modules, "sglang.srt.distributed.parallel_state", state)
    return digest(given, of)


def words(given: Any) -> str:
    """Return what a rank brings."""
    found = ModuleType("ours")
    exec(compile(TEXT, "ours.py", "exec"), found.__dict__)
    return str(found.__dict__["as_text"](found.__dict__["words"](given, pool())))


def test_ranks_that_agree_have_the_digest_of_one(
    monkeypatch: pytest.MonkeyPatch, folder: Path
) -> None:
    given = arguments(folder)
    alone = digest(given)
    assert of_ranks(monkeypatch, given) == alone
    assert of_ranks(monkeypatch, given, (words(given), "")) == alone


def test_ranks_that_differ_stop_together(
    monkeypatch: pytest.MonkeyPatch, folder: Path, tmp_path: Path
) -> None:
    """Other weights on one node change the blocks of all ranks; a key names one rank."""
    given, other = arguments(folder), arguments(model(tmp_path / "b", weights=b"others"))
    with pytest.raises(RuntimeError, match=r"cannot tell .* <> "):
        of_ranks(monkeypatch, given, (words(other), ""))
    with pytest.raises(RuntimeError, match=r"cannot tell .*: OSError: no file$"):
        of_ranks(monkeypatch, given, ("{}", "OSError: no file"))
    (tmp_path / "empty").mkdir()
    with pytest.raises(RuntimeError, match=r"cannot tell .*empty holds no weights$"):
        of_ranks(monkeypatch, arguments(tmp_path / "empty"), (words(given), ""))


def test_each_stage_of_a_pipeline_counts_in_every_rank(
    monkeypatch: pytest.MonkeyPatch, folder: Path, tmp_path: Path
) -> None:
    """Other weights in one stage change what the next ones compute. Stages may differ."""
    given, other = arguments(folder), arguments(model(tmp_path / "b", weights=b"others"))
    same, mixed, alone = words(given), words(other), digest(given)

    def told(*stages: str, **layers: int) -> str:
        return of_ranks(monkeypatch, given, (same, ""), stages=stages, of=pool(**layers))

    found = {
        "one stage": told(),
        "two": told(same),
        "two, the second with other weights": told(mixed),
        "three": told(same, same),
        "two, other layers in the first": told(same, start_layer=0, end_layer=9),
    }
    assert len(set(found.values())) == len(found), found
    assert found["one stage"] == alone
    assert found["two"] == told(same)
    with pytest.raises(RuntimeError, match=r"cannot tell .* <> "):
        of_ranks(monkeypatch, given, (mixed, ""), stages=(same,))


@pytest.mark.parametrize("step", ["_layers", "as_text"])
def test_a_rank_that_fails_before_the_others_meet_does_not_leave_them_waiting(
    monkeypatch: pytest.MonkeyPatch, folder: Path, step: str
) -> None:
    met: list[Any] = []

    def fails(*_: Any) -> Any:
        raise RecursionError("too deep")

    def gather(rows: list[Any], mine: Any, group: str) -> None:
        met.append(mine)

    of_ranks(monkeypatch, arguments(folder), (words(arguments(folder)), ""))
    sys.modules["torch.distributed"].all_gather_object = gather  # type: ignore[attr-defined]
    found = ModuleType("ours")
    exec(compile(TEXT, "ours.py", "exec"), found.__dict__)
    found.__dict__[step] = fails
    with pytest.raises(RuntimeError, match=r"cannot tell .*RecursionError: too deep"):
        found.__dict__["resolved"](arguments(folder), pool())
    assert met


def test_digest_follows_the_name_or_the_tag(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    given = arguments(folder)
    ours = digest(given)
    assert len(ours) == 16
    assert created(monkeypatch, given).config_suffix == f"_served-{ours}_0_1"
    shared: dict[str, Any] = dict(TAG)
    tagged = created(monkeypatch, given, "mooncake", shared)
    assert tagged.config_prefix == f"0123456789ab-{ours}_served"
    assert shared == TAG, "SGLang's own configuration is as it was given"
    older = created(monkeypatch, given, "older", TAG)
    assert older.extra_backend_tag == f"0123456789ab-{ours}"


def test_stages_that_make_one_folder_at_once_start(
    monkeypatch: pytest.MonkeyPatch, folder: Path
) -> None:
    """SGLang's storage of files makes its folder in the first rank of every stage."""
    given = arguments(folder)
    made = created(monkeypatch, given, "racing")
    assert made.config_suffix == f"_served-{digest(given)}_0_1"


def test_another_way_of_keys_stops_the_engine(
    monkeypatch: pytest.MonkeyPatch, folder: Path
) -> None:
    with pytest.raises(RuntimeError, match="keys its pages in another way"):
        created(monkeypatch, arguments(folder), "elsewhere")


@pytest.mark.parametrize(
    "more",
    [
        {"kv_cache_dtype": "fp8_e4m3"},
        {"attention_backend": "trtllm_mha"},
        {"json_model_override_args": '{"rope_theta": 5e5}'},
        {"load_format": "dummy"},
    ],
)
def test_what_makes_a_page_changes_the_digest(folder: Path, more: dict[str, Any]) -> None:
    assert digest(arguments(folder)) != digest(arguments(folder, **more))


@pytest.mark.parametrize("more", [{"layout": "layer_first"}, {"dtype": "fp8"}, {"page_size": 32}])
def test_host_pool_changes_the_digest(folder: Path, more: dict[str, Any]) -> None:
    """SGLang chooses fp8 for sparse attention by the GPU; its arguments may still say auto."""
    assert digest(arguments(folder)) != digest(arguments(folder), pool(**more))
    group = SimpleNamespace(anchor_entry=SimpleNamespace(host_pool=pool(**more)))
    assert digest(arguments(folder), group) == digest(arguments(folder), pool(**more))


def test_weights_and_configuration_change_the_digest(tmp_path: Path, folder: Path) -> None:
    usual = digest(arguments(folder))
    assert digest(arguments(model(tmp_path / "copy"))) == usual, "a copy on another node"
    moved = model(tmp_path / "moved", CONFIG | {"_name_or_path": "/y"})
    assert digest(arguments(moved)) == usual
    others = [
        arguments(model(tmp_path / "weights", weights=b"others")),
        arguments(model(tmp_path / "config", CONFIG | {"rope_theta": 1.0})),
        arguments(folder, speculative_draft_model_path=str(folder)),
    ]
    assert len({usual, *map(digest, others)}) == 4


def test_longest_request_counts_with_longrope_only(tmp_path: Path, folder: Path) -> None:
    assert digest(arguments(folder)) == digest(arguments(folder, context_length=4096))
    long = model(tmp_path / "long", LONG)
    assert digest(arguments(long)) != digest(arguments(long, context_length=4096))


def test_hub_is_known_by_its_commit(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, folder: Path
) -> None:
    (tmp_path / "snapshots").mkdir()
    commits = [tmp_path / "snapshots" / (digit * 40) for digit in "cd"]
    for place in commits:
        model(place)
    found = {"main": commits[0], "v2": commits[1]}
    hub = SimpleNamespace(snapshot_download=lambda name, revision, **_: found[revision or "main"])
    monkeypatch.setitem(sys.modules, "huggingface_hub", hub)  # type: ignore[arg-type]
    named, other = (digest(arguments("acme/tiny", revision=each)) for each in (None, "v2"))
    assert named == digest(arguments(commits[0])) != other
    monkeypatch.setenv("SGLANG_USE_MODELSCOPE", "true")
    assert digest(arguments("acme/tiny")) not in (named, other)
    assert digest(arguments("s3://bucket/a")) != digest(arguments("s3://bucket/b"))


def test_unknown_facts_stop_the_engine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(RuntimeError, match=r"cannot tell this engine's pages .* holds no weights"):
        created(monkeypatch, arguments(tmp_path))


def test_plugin_fits_a_record() -> None:
    (path,) = (name for name in hierarchy._PLUGIN if name.endswith(".py"))
    assert path.removesuffix(".py").isidentifier()
    assert len(json.dumps(dict(hierarchy._PLUGIN))) < 12 * 1024
