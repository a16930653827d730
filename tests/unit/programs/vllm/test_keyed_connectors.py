"""The classes that vLLM loads, over stand-ins for vLLM's own.

What vLLM really resolves is the conformance suite's to say, and what an engine answers with it the
serving suite's; here is what our few lines make of it.
"""

import dataclasses
import json
import os
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

import programs
from function.backends import keyed

TEXT = programs.module("vllm/keyed_connectors.py")
V1 = "vllm.distributed.kv_transfer.kv_connector.v1."
WORKER, SCHEDULER = SimpleNamespace(name="WORKER"), SimpleNamespace(name="SCHEDULER")
KEY = "0123456789ab"


@dataclasses.dataclass(frozen=True)
class Model:
    name: str = "/mnt/models"


@dataclasses.dataclass(frozen=True)
class Offloading:
    model: Model = Model()


class Store:
    """MooncakeStoreConnector, as far as ours relies on it."""

    takes = "cache_prefix"

    def __init__(self, vllm_config: Any, role: Any, kv_cache_config: Any = None):
        extra = vllm_config.kv_transfer_config.kv_connector_extra_config
        metadata = SimpleNamespace(cache_prefix=extra.get(self.takes, ""))
        worker = SimpleNamespace(token_dbs=[SimpleNamespace(metadata=metadata)])
        self.connector_worker = worker if role is WORKER else None


class Elsewhere(Store):
    """One whose keys take their prefix from somewhere else."""

    takes = "namespace"


def module(store: type = Store, calls_build: bool = True, ranks: Any = None) -> Any:
    """Our module among stand-ins; `ranks`: what a group of workers makes of what one brings."""
    offloading = ModuleType("offloading_connector")

    class OffloadingConnector:
        def __init__(self, vllm_config: Any, role: Any, kv_cache_config: Any = None):
            build = offloading.__dict__["build_offloading_config"]
            self.config = build(vllm_config, kv_cache_config) if calls_build else None

    offloading.__dict__.update(
        OffloadingConnector=OffloadingConnector,
        build_offloading_config=lambda vllm_config, kv_cache_config: Offloading(),
    )
    found = ModuleType("ours")
    exec(compile(TEXT, "ours.py", "exec"), found.__dict__)
    upstream = {
        V1 + "mooncake.store.connector": SimpleNamespace(MooncakeStoreConnector=store),
        V1 + "offloading_connector": offloading,
    }
    found.__dict__["importlib"] = SimpleNamespace(import_module=upstream.__getitem__)
    found.__dict__["_workers"] = ranks or (lambda mine: [mine])
    return found


@pytest.fixture(autouse=True)
def vllm(monkeypatch: pytest.MonkeyPatch) -> None:
    platform = SimpleNamespace(current_platform=SimpleNamespace(device_type="cpu"))
    for name, stub in (
        ("vllm", SimpleNamespace(__version__="0.33.0")),
        ("vllm.platforms", platform),
    ):
        monkeypatch.setitem(sys.modules, name, stub)  # type: ignore[arg-type]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "model.bin").write_bytes(b"weights")
    return tmp_path


def config(model: Any, **more: Any) -> Any:
    """A VllmConfig; `more`: fields of its model_config, or of another part as PART__FIELD."""
    parts: dict[str, dict[str, Any]] = {
        "model": {
            "model": str(model),
            "revision": None,
            "dtype": "bfloat16",
            "max_model_len": 8192,
            "hf": {"a": 1},
        },
        "cache": {"kv_cache_layout": "LBHNC", "block_size": 64},
        "load": {"load_format": "auto", "download_dir": None},
        "layer": {"name": "FLASH_ATTN"},
    }
    for name, value in more.items():
        part, _, field = name.rpartition("__")
        parts[part or "model"][field] = value
    hf = parts["model"].pop("hf")
    hf_config = SimpleNamespace(to_dict=lambda: hf, _commit_hash=parts["model"].pop("commit", None))
    backend = SimpleNamespace(get_name=lambda: parts["layer"]["name"])
    layers = {"a": SimpleNamespace(get_attn_backend=lambda: backend), "b": object()}
    return SimpleNamespace(
        model_config=SimpleNamespace(hf_config=hf_config, **parts["model"]),
        cache_config=SimpleNamespace(**parts["cache"]),
        load_config=SimpleNamespace(**parts["load"]),
        parallel_config=SimpleNamespace(tensor_parallel_size=1),
        speculative_config=None,
        additional_config={},
        compilation_config=SimpleNamespace(static_forward_context=layers),
        kv_transfer_config=SimpleNamespace(kv_connector_extra_config={"cache_prefix": KEY}),
    )


def groups(spec: str = "a spec") -> Any:
    return SimpleNamespace(kv_cache_groups=[SimpleNamespace(kv_cache_spec=spec)])


def prefix(of: Any, spec: str = "a spec", ours: Any = None) -> str:
    """The prefix of a Mooncake worker's keys."""
    made = (ours or module()).MooncakeStoreConnector(of, WORKER, groups(spec))
    return str(made.connector_worker.token_dbs[0].metadata.cache_prefix)


def test_worker_appends_a_digest_to_the_identity_once(folder: Path) -> None:
    of = config(folder)
    first = prefix(of)
    assert first.startswith(f"{KEY}-") and len(first) == len(KEY) + 17
    assert prefix(of) == first == prefix(config(folder))


def test_scheduler_of_mooncake_computes_nothing() -> None:
    of = config("/absent")
    module().MooncakeStoreConnector(of, SCHEDULER, groups())
    assert of.kv_transfer_config.kv_connector_extra_config == {"cache_prefix": KEY}


ROPE = {"rope_scaling": {"rope_type": "longrope"}}


@pytest.mark.parametrize(
    "more",
    [
        {"dtype": "float16"},
        {"hf": {"a": 2}},
        {"cache__kv_cache_layout": "LBNHC"},
        {"cache__block_size": 128},
        {"cache__cache_dtype": "fp8"},
        {"layer__name": "FLASHINFER"},
    ],
)
def test_what_makes_a_block_changes_the_key(folder: Path, more: dict[str, Any]) -> None:
    assert prefix(config(folder)) != prefix(config(folder, **more))


def test_layers_of_each_stage_change_the_key(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """Keys name a stage of a pipeline, not which layers it has."""
    usual = prefix(config(folder))
    monkeypatch.setenv("VLLM_PP_LAYER_PARTITION", "12,20")
    assert prefix(config(folder)) != usual


def test_shape_of_blocks_changes_the_key(folder: Path) -> None:
    assert prefix(config(folder)) != prefix(config(folder), "another spec")


def test_longest_request_counts_with_longrope_only(folder: Path) -> None:
    assert prefix(config(folder)) == prefix(config(folder, max_model_len=4096))
    long, short = (config(folder, hf=ROPE, max_model_len=n) for n in (8192, 4096))
    assert prefix(long) != prefix(short)


def test_place_and_author_of_a_configuration_do_not_count(folder: Path) -> None:
    said = {"a": 1, "_name_or_path": "/other", "transformers_version": "5"}
    assert prefix(config(folder)) == prefix(config(folder, hf=said))


def test_addresses_and_the_order_of_sets_do_not_count(folder: Path) -> None:
    one, two = ({"a": object(), "b": set(names)} for names in (["x", "y", "z"], ["z", "y", "x"]))
    assert prefix(config(folder, hf=one)) == prefix(config(folder, hf=two))
    assert module().as_text({"b": {"z", "x"}}) == '{"b": ["x", "z"]}'


def test_weights_are_known_by_commit_address_or_seed(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours, commit = module(), "c" * 40
    empty = folder / "empty"
    empty.mkdir()

    def weights(*args: Any, **more: Any) -> Any:
        of = config(*args, **more)
        return ours._weights(of.model_config, of.load_config)

    cached = {"acme/tiny": "/hub/models--acme--tiny/snapshots/" + "d" * 40}
    hub = SimpleNamespace(snapshot_download=lambda name, **_: cached[name])
    monkeypatch.setitem(sys.modules, "huggingface_hub", hub)  # type: ignore[arg-type]
    assert weights("acme/tiny", commit=commit) == ("commit", commit)
    assert weights("acme/tiny") == ("commit", "d" * 40)
    # The commit is that of another repository, which has the configuration only.
    assert weights("acme/tiny", commit=commit, hf_config_path="b") == ("commit", "d" * 40)
    assert weights(f"/hub/snapshots/{commit}") == ("commit", commit)
    assert weights(empty, model_weights="s3://bucket/m") == ("address", "s3://bucket/m", None)
    assert weights(empty, load__load_format="plugin") == ("address", str(empty), None)
    uri = {"tensorizer_uri": "s3://bucket/t"}
    for place in (empty, folder):
        found = weights(place, load__load_format="tensorizer", load__model_loader_extra_config=uri)
        assert found == ("address", "s3://bucket/t", None)
    uri = {"tensorizer_uri": str(folder / "model-%03d.bin")}
    local = weights(empty, load__load_format="tensorizer", load__model_loader_extra_config=uri)
    assert local == weights(folder)
    assert weights(folder, model_weights="s3://bucket/m") == ("address", "s3://bucket/m", None)
    assert weights(empty, load__load_format="dummy", seed=7) == ("dummy", 7)
    assert weights(folder)[0] == "files" == weights(folder / "model.bin")[0]
    with pytest.raises(RuntimeError, match="holds no weights"):
        weights(empty)
    with pytest.raises(KeyError, match="acme/other"):
        weights("acme/other")
    monkeypatch.setenv("VLLM_USE_MODELSCOPE", "True")
    assert weights(folder)[0] == "files", "a folder is read as it is"
    assert weights("acme/tiny") == ("address", "acme/tiny", None)


@pytest.mark.parametrize("name", ["MooncakeStoreConnector", "OffloadingConnector"])
@pytest.mark.parametrize(
    "more", [{"model__model": "/absent/snapshots"}, {"cache__kv_cache_layout": None}]
)
def test_unknown_facts_stop_the_engine(folder: Path, name: str, more: dict[str, Any]) -> None:
    role = WORKER if name.startswith("Moon") else SCHEDULER
    with pytest.raises(RuntimeError, match="cannot tell this engine's blocks from other engines'"):
        getattr(module(), name)(config(folder, **more), role, groups())


def joined(folder: Path, problem: str = "", **other: Any) -> str:
    """The prefix beside a rank that brings other facts, or why it has none."""

    def ranks(mine: Any) -> Any:
        return [mine, ({} if problem else {**mine[0], **other}, problem)]

    return prefix(config(folder), ours=module(ranks=ranks))


def test_workers_that_differ_stop_together(folder: Path) -> None:
    with pytest.raises(RuntimeError, match="<>"):
        joined(folder, dtype="float16")
    with pytest.raises(RuntimeError, match=r"cannot tell .*: OSError: no file$"):
        joined(folder, "OSError: no file")


@pytest.mark.parametrize("own", [{"backends": ["FLASHINFER"]}, {"groups": ["of 8 heads"]}])
def test_layers_of_other_stages_are_joined(folder: Path, own: dict[str, list[str]]) -> None:
    """A pipeline's stages have layers of their own; each stage computes the same digest."""
    alone = prefix(config(folder))
    assert joined(folder) == alone
    assert joined(folder, **own) == joined(folder, **own) != alone


class Group:
    """A group of workers; `others`: what its other ranks bring to a gather."""

    cpu_group = property(lambda self: self)
    world_size = 2

    def __init__(self, *others: Any):
        self.others, self.gathered = others, 0


@pytest.mark.parametrize("problem", ["", "OSError: EIO"])
def test_every_group_gathers_before_anything_raises(
    folder: Path, monkeypatch: pytest.MonkeyPatch, problem: str
) -> None:
    """A rank that raised earlier would leave the others in a gather for 30 minutes."""
    tensor, pipeline = Group(({}, problem or "OSError: of another rank")), Group(({}, problem))

    def gather(rows: list[Any], mine: Any, group: Group) -> None:
        group.gathered += 1
        rows[:] = [mine, list(group.others)]

    state = SimpleNamespace(get_tp_group=lambda: tensor, get_pp_group=lambda: pipeline)
    distributed = SimpleNamespace(all_gather_object=gather)
    for name, stub in (
        ("torch", SimpleNamespace(distributed=distributed)),
        ("torch.distributed", distributed),
        ("vllm.distributed", SimpleNamespace(parallel_state=state)),
    ):
        monkeypatch.setitem(sys.modules, name, stub)  # type: ignore[arg-type]
    ours = ModuleType("ours")
    exec(compile(TEXT, "ours.py", "exec"), ours.__dict__)
    of = config("/absent/snapshots" if problem else folder)
    with pytest.raises(RuntimeError, match="OSError: "):
        ours.__dict__["agreed"](of, groups())
    assert (tensor.gathered, pipeline.gathered) == (1, 1)


def test_layer_without_a_backend_is_told_to_all_workers(folder: Path) -> None:
    of = config(folder)
    of.compilation_config = None
    assert module().told(of, groups(), worker=True)[1].startswith("AttributeError: ")


def test_another_way_of_keys_stops_the_engine(folder: Path) -> None:
    with pytest.raises(RuntimeError, match="keys its blocks in another way"):
        prefix(config(folder), ours=module(store=Elsewhere))
    with pytest.raises(RuntimeError, match="keys its blocks in another way"):
        module(calls_build=False).OffloadingConnector(config(folder), SCHEDULER, groups())


def test_files_objects_and_peers_are_kept_apart_by_the_model_name(folder: Path) -> None:
    ours = module()
    name = ours.OffloadingConnector(config(folder), SCHEDULER, groups()).config.model.name
    other = config(folder, dtype="float16")
    assert name.startswith("/mnt/models-") and len(name) == len("/mnt/models-") + 16
    assert ours.OffloadingConnector(config(folder), SCHEDULER, groups()).config.model.name == name
    assert ours.OffloadingConnector(other, SCHEDULER, groups()).config.model.name != name
    assert ours.OffloadingConnector(config("/absent"), WORKER, groups()).config.model == Model()


def test_other_connectors_are_not_there() -> None:
    with pytest.raises(AttributeError):
        _ = module().NixlConnector


# weights


def safetensors(path: Path, tensors: int, size: int) -> Path:
    rows = {f"t{n}": {"data_offsets": [n * size, (n + 1) * size]} for n in range(tensors)}
    header = json.dumps(rows).encode()
    path.write_bytes(len(header).to_bytes(8, "little") + header + bytes(tensors * size))
    return path


def test_copies_agree_and_one_changed_tensor_does_not(tmp_path: Path) -> None:
    ours = module()
    one = safetensors(tmp_path / "model.safetensors", tensors=40, size=1 << 17)
    (tmp_path / "copy").mkdir()
    two = safetensors(tmp_path / "copy" / one.name, tensors=40, size=1 << 17)
    os.utime(two, (1, 1))
    before = ours.fingerprint((one,))
    assert before == ours.fingerprint((two,))
    with open(two, "r+b") as file:
        file.seek(two.stat().st_size - 20 * (1 << 17))
        file.write(b"\1" * (1 << 17))
    ours.fingerprint.cache_clear()
    assert before != ours.fingerprint((two,))


def counting_reads(monkeypatch: pytest.MonkeyPatch) -> tuple[Any, list[int]]:
    """Return the module, and the lengths that it reads from then on."""
    ours = module()
    read: list[int] = []
    original = ours._read

    def counted(stream: Any, start: int, length: int) -> bytes:
        read.append(length)
        return bytes(original(stream, start, length))

    monkeypatch.setattr(ours, "_read", counted)
    return ours, read


def test_no_file_is_read_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """64 GiB in four files without safetensors' header, of which less than 64 MiB are read."""
    ours, read = counting_reads(monkeypatch)
    files = tuple(tmp_path / f"{n}.bin" for n in range(4))
    for file in files:
        with open(file, "wb") as stream:
            stream.truncate(16 << 30)
    ours.fingerprint(files)
    assert sum(read) < 64 << 20


def test_samples_are_bounded_over_all_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A remote volume answers each sample after milliseconds."""
    ours, read = counting_reads(monkeypatch)
    files = [safetensors(tmp_path / f"{n}.safetensors", tensors=90, size=64) for n in range(40)]
    ours.fingerprint(tuple(files))
    assert 40 * 10 < read.count(ours._SAMPLE) <= 512


@pytest.mark.parametrize("start", [b"\xff" * 7 + b"\0", (99).to_bytes(8, "little")])
def test_header_is_read_only_where_it_can_be_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, start: bytes
) -> None:
    """A number beyond the file, and one before something else than an object."""
    ours, read = module(), []
    original = ours._read
    monkeypatch.setattr(ours, "_read", lambda *a: read.append(a[2]) or original(*a))
    (tmp_path / "model.bin").write_bytes(start + b"PK" * 1000)
    with open(tmp_path / "model.bin", "rb") as stream:
        assert ours._tensors(stream, 2008) == []
    assert max(read) <= 8


def test_odd_files_have_a_fingerprint(tmp_path: Path) -> None:
    for number, content in enumerate((b"", b"1", b"\xff" * 9, b"\2" + bytes(7) + b"[]")):
        (tmp_path / f"{number}.safetensors").write_bytes(content)
    assert len(module().fingerprint(tuple(sorted(tmp_path.iterdir())))) == 16


def test_module_fits_a_record() -> None:
    (path,) = keyed.MODULE.files
    assert path.removesuffix(".py").isidentifier() and path.startswith(keyed.PREFIX)
    assert len(json.dumps(TEXT)) < 12 * 1024  # of 16 KiB
