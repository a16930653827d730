"""Flags of a HiCache tier, checked by SGLang's own parser, checks and storages."""

import json
import os
import shutil
import time
from pathlib import Path
from typing import Any

import pytest

from function.contract.injection import Injection
from tests.conformance import evictor
from tests.conformance.clients import HicacheStorage, SglangArgs
from tests.conformance.manifests import ROOT, render
from tests.conformance.mooncake import until
from tests.conformance.pod import Pod
from tests.render.case import CASES
from tests.serve.models import LONG_ROPE, write_model
from tests.unit.backends.hicache import IDENTITY, cache, sglang
from tests.unit.backends.hicache.golden import ENGINES, GOLDENS

EXAMPLES = ROOT / "example" / "hicache"
RETIRED = "ba9876543210"
START = ["python3", "-m", "sglang.launch_server", "--model-path", "model"]
BACKEND = GOLDENS.backend
_TEXTS = ("--hicache-storage-backend-extra-config",)
_DIRECTORY = "SGLANG_HICACHE_FILE_BACKEND_STORAGE_DIR"
PAGE = 64 * 2 * 2 * 2 * 64 * 2  # tokens, K and V, layers, heads, size of a head, bytes


def argv(injection: Injection) -> list[str]:
    """The command line of an engine with these flags."""
    words = [word for flag in injection.flags.items() for word in flag if word is not None]
    return [*START, *words]


def resolved(client: SglangArgs, injection: Injection) -> None:
    """SGLang starts, and every value is the one that was written."""
    parsed = client.parse(argv(injection))
    assert parsed.ok, parsed.error
    for flag, value in injection.flags.items():
        field = flag.removeprefix("--").replace("-", "_")
        got = parsed.result["resolved"][field]
        if value is None:
            assert got is True, field
        elif flag in _TEXTS:
            assert (json.loads(got) if isinstance(got, str) else got) == json.loads(value)
        else:
            assert type(got)(value) == got, field


@pytest.mark.parametrize("case", GOLDENS.cases)
def test_every_flag_has_its_intended_effect(sglang: SglangArgs, case: str) -> None:
    resolved(sglang, BACKEND.inject(GOLDENS.of(case), ENGINES["sglang"]))


def test_decode_engine_with_offloading_starts(sglang: SglangArgs) -> None:
    tier = cache(decode="Offload", storage={"type": "File", "file": {"sizeGiB": 8}})
    injection = BACKEND.inject(tier, _decode(tier))
    parsed = sglang.parse([*argv(injection), "--disaggregation-mode", "decode"])
    assert parsed.ok, parsed.error
    said = parsed.result["resolved"]
    assert said["disaggregation_decode_enable_offload_kvcache"] is True
    assert (said["hicache_storage_backend"], said["hicache_size"]) == ("file", 107)


def _decode(tier):
    return sglang(tier, flags={"--disaggregation-mode": "decode"})


def _files(root: str, identity: str = IDENTITY, page: str | None = None) -> dict[str, Any]:
    """What a checker is asked, as a tier of files wires an engine, below `root`."""
    tier = cache(storage={"type": "File", "file": {"sizeGiB": 1}})
    flags = {"--page-size": page} if page else {}
    injection = BACKEND.inject(tier, sglang(tier, identity=identity, flags=flags))
    env = {variable["name"]: root + variable["value"] for variable in injection.env}
    return {"extra": injection.flags[_TEXTS[0]], "env": env, "page": int(page or 64)}


def test_another_process_reads_the_pages_back(hicache: HicacheStorage, tmp_path) -> None:
    wired = _files(str(tmp_path))
    wrote = hicache.run("file", [["put", 0, 8, 1]], **wired)
    assert wrote.ok, wrote.log
    assert wrote.result["steps"] == [8]
    # In milliseconds in the tier, in seconds here.
    assert wrote.result["prefetch"] == [256, 1.0, 0.25]
    read = hicache.run("file", [["get", 0, 8, 1]], **wired)
    assert read.result["steps"] == [{"there": 8, "equal": 8}]
    assert read.result["pid"] != wrote.result["pid"]


def test_identities_and_page_sizes_never_share_pages(hicache: HicacheStorage, tmp_path) -> None:
    """The keys are the same: a page of the same tokens, of a model served under the same name."""
    root = str(tmp_path)
    assert hicache.run("file", [["put", 0, 8, 1]], **_files(root)).result["steps"] == [8]
    for other in (_files(root, "ba9876543210"), _files(root, page="32")):
        read = hicache.run("file", [["get", 0, 8, 1]], **other)
        assert read.ok, read.log
        assert read.result["steps"] == [{"there": 0, "equal": 0}]


def _engine(root: Path, model: str, *flags: str, **more: Any) -> dict[str, Any]:
    """What a checker is asked, of an engine that loads the plugin of its pod."""
    tier = cache(storage={"type": "File", "file": {"sizeGiB": 1}})
    for path, text in BACKEND.inject(tier, sglang(tier)).files.items():
        (root / "files" / path).parent.mkdir(parents=True, exist_ok=True)
        (root / "files" / path).write_text(text)
    wired = _files(str(root))
    wired["env"]["PYTHONPATH"] = str(root / "files")
    return wired | {"flags": ["--model-path", str(root / model), *flags]} | more


def test_pages_that_other_engines_resolved_are_misses(hicache: HicacheStorage, tmp_path) -> None:
    """One identity and one name: what SGLang resolved, and weights behind a path."""
    write_model(tmp_path / "model", 1)
    write_model(tmp_path / "other", 2)
    shutil.copytree(tmp_path / "model", tmp_path / "copy")
    write_model(tmp_path / "long", 1, LONG_ROPE)
    long = _engine(tmp_path, "long", "--context-length", "8192")
    for mine in (_engine(tmp_path, "model"), long):
        wrote = hicache.run("file", [["put", 0, 8, 1]], **mine)
        assert wrote.ok, wrote.log
        assert wrote.result["steps"] == [8]
        assert wrote.result["milliseconds"] < 5000, "a busy machine"
        for other in (
            _engine(tmp_path, "other"),
            _engine(tmp_path, "model", "--kv-cache-dtype", "fp8_e4m3"),
            _engine(tmp_path, "model", "--json-model-override-args", '{"rope_theta": 5e5}'),
            _engine(tmp_path, "long", "--context-length", "4096"),
            _engine(tmp_path, "model", layout="layer_first"),
        ):
            read = hicache.run("file", [["get", 0, 8, 1]], **other)
            assert read.ok, read.log
            assert read.result["steps"] == [{"there": 0, "equal": 0}], other["flags"]
        again = hicache.run("file", [["get", 0, 8, 1]], **mine)
        assert again.result["steps"] == [{"there": 8, "equal": 8}]
    copied = hicache.run("file", [["get", 0, 8, 1]], **_engine(tmp_path, "copy"))
    assert copied.result["steps"] == [{"there": 8, "equal": 8}]


@pytest.mark.minutes
def test_other_weights_in_one_stage_change_the_keys_of_all(
    hicache: HicacheStorage, node, tmp_path
) -> None:
    """SGLang's own groups, two ranks in each of two stages: what the second stage computes depends
    on the weights of the first."""
    write_model(tmp_path / "model", 1)
    write_model(tmp_path / "other", 2)
    wired = _engine(tmp_path, "model", "--tp-size", "2", "--pp-size", "2")
    model, other = (str(tmp_path / name) for name in ("model", "other"))
    flags = wired["flags"][2:]

    def ranks(*models: str) -> list[dict[str, str]]:
        env = wired["env"] | {"GLOO_SOCKET_IFNAME": "lo"}
        said = hicache.ranks(models, env=env, flags=flags)
        assert said.ok, said.log
        return said.result["ranks"]

    digests = {}
    for name, models in {
        "all": [model] * 4,
        "all again": [model] * 4,
        "the first stage": [other] * 2 + [model] * 2,
        "the second stage": [model] * 2 + [other] * 2,
    }.items():
        found = ranks(*models)
        assert all("key" in rank for rank in found), found
        keys = [rank["key"] for rank in found]
        assert [key[-8:] for key in keys] == ["_0_2_2_0", "_1_2_2_0", "_0_2_2_1", "_1_2_2_1"]
        (digests[name],) = {key.rsplit("_", 4)[0] for key in keys}
    assert digests["all"] == digests.pop("all again")
    assert len(set(digests.values())) == 3, digests
    for rank in ranks(model, other, model, model):
        assert "cannot tell this engine's pages from other engines'" in rank["error"]


def test_the_evictor_bounds_files_of_every_identity(hicache: HicacheStorage, node, engines) -> None:
    """Pages of a model that nobody serves any more go first; to SGLang what is gone is a miss, and
    it writes it again."""
    manifests = render(CASES / "tier/hicache/files-bounded/xr.yaml", EXAMPLES / "required")
    template, tier = evictor.pod_template(node, manifests, 16 * PAGE)
    volume = node.volume("claim", "kv-pages")

    def run(identity: str, way: str, pages: int) -> Any:
        wired = _files("", identity)
        place = Path(wired["env"][_DIRECTORY]).name
        env = {_DIRECTORY: str(volume / tier / place)}
        (said,) = hicache.run("file", [[way, 0, pages, 1]], **{**wired, "env": env}).result["steps"]
        return said

    with Pod(node, template, engines, name="evictor") as pod:
        pod.wait_ready(60)
        assert run(RETIRED, "put", 8) == 8
        hour_ago = time.time() - 3600  # ages within a second are one to the evictor
        for page in volume.rglob("*.bin"):
            os.utime(page, (hour_ago, hour_ago))
        for _ in range(2):
            assert run(IDENTITY, "put", 16) == 16
            until(lambda: len(list(volume.rglob("*.bin"))) <= 16, 60)
        assert run(RETIRED, "get", 8) == {"there": 0, "equal": 0}
        left = run(IDENTITY, "get", 16)
        assert left["there"] == left["equal"] > 0


def test_files_stay_below_their_size(hicache: HicacheStorage, tmp_path) -> None:
    """The same key, with a number that a test can fill: the oldest pages leave."""
    wired = _files(str(tmp_path))
    extra = json.loads(str(wired["extra"]))
    assert extra["max_size"] == 2**30
    wired["extra"] = json.dumps({**extra, "max_size": 16 * PAGE})
    wrote = hicache.run("file", [["put", n, 8, 1] for n in range(0, 64, 8)], **wired)
    assert wrote.ok, wrote.log
    files = [file for file in tmp_path.rglob("*") if file.is_file()]
    assert 0 < sum(file.stat().st_size for file in files) <= 16 * PAGE
    read = hicache.run("file", [["get", 56, 8, 1], ["get", 0, 8, 1]], **wired)
    assert read.result["steps"] == [{"there": 8, "equal": 8}, {"there": 0, "equal": 0}]
