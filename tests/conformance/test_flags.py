"""What `function.engines` reads and writes, held to the engines' own parsers."""

import json

import pytest

from function.engines.registry import kind
from function.engines.sglang import flags as sglang_flags
from function.engines.vllm import flags as vllm_flags
from function.engines.vllm.merge import children
from tests.unit.engines.helpers import apply, engine, planned, sglang, vllm
from tests.unit.engines.test_config_file import API_SERVER, FILES
from tests.unit.engines.test_sglang import EDITS as SGLANG_EDITS
from tests.unit.engines.test_vllm_edits import EDITS, KV
from tests.unit.engines.test_vllm_read import TRANSFER


def _static(words: list) -> bool:
    return all(isinstance(word, str) for word in words)


READ = [(name, words, want) for name, words, want in TRANSFER if _static(words)]


@pytest.mark.parametrize(("words", "want"), [c[1:] for c in READ], ids=[c[0] for c in READ])
def test_effective_config_equals_vllms(request, words, want):
    parsed = request.getfixturevalue("vllm").parse(["vllm", "serve", *words])
    if not parsed.ok:  # vLLM would not start: nothing is effective
        assert parsed.exit_code != 0
        assert want is None or want.get("kv_connector") is None or "kv-connector" in want
        return
    config = parsed.result["kv_transfer_config"]
    if not want or not want.get("kv_connector"):
        assert config is None
        return
    assert {key: config[key] for key in want} == want


WIRED = [(name, injection, words) for name, injection, words, _ in EDITS if _static(words)]


@pytest.mark.parametrize(("injection", "words"), [c[1:] for c in WIRED], ids=[c[0] for c in WIRED])
def test_vllm_accepts_the_wired_flags(request, injection, words):
    call = vllm(*words)
    wired = apply(call, planned(call, engine(), injection).edits())
    if "--" in wired or "--config" in wired or "-x" in wired or "m" not in wired[:1]:
        wired = ["m", *[w for w in wired if w not in ("--", "x", "-x", "m", "f.yaml", "--config")]]
    parsed = request.getfixturevalue("vllm").parse(["vllm", "serve", *wired])
    assert parsed.ok, parsed.error
    config = parsed.result["kv_transfer_config"]
    if injection.connector is None:
        return
    before = json.loads(kind("vLLM").read(call).get(KV) or "{}")
    mine = [child["kv_connector"] for child in children(before)]
    ours = injection.connector["kv_connector"]
    # A transfer goes before the caches that are there, a cache after what is there.
    joined = [ours, *mine] if ours == "NixlConnector" else [*mine, ours]
    assert [child["kv_connector"] for child in children(config)] == (
        mine if ours in mine else joined
    )
    resolved = [found["name"] for found in parsed.result["connectors"]]
    assert len(resolved) == len(children(config)) + (len(children(config)) > 1)


SG = [(name, injection, words) for name, injection, words, _ in SGLANG_EDITS if injection.flags]


@pytest.mark.parametrize(("injection", "words"), [c[1:] for c in SG], ids=[c[0] for c in SG])
def test_sglang_accepts_the_wired_flags(request, injection, words):
    call = sglang("--model-path", "model", *[w for w in words if w not in ("--model", "m")])
    wired = apply(call, planned(call, engine("SGLang"), injection).edits())
    parsed = request.getfixturevalue("sglang").parse(
        ["python3", "-m", "sglang.launch_server", *wired]
    )
    assert parsed.ok, parsed.error
    for name, value in injection.flags.items():
        given = parsed.result["given"][name[2:].replace("-", "_")]
        assert given is True if value is None else str(given) == value


TABLES = [("vllm", vllm_flags.TABLE.every), ("sglang", sglang_flags.TABLE.every)]


@pytest.mark.parametrize(("name", "options"), TABLES, ids=["vllm", "sglang"])
def test_flag_table_equals_the_parser(request, name, options):
    real = {
        (tuple(spellings), arity, tuple(off))
        for spellings, arity, off in request.getfixturevalue(name).options()
        if "--help" not in spellings and any(s.startswith("--") for s in spellings)
    }
    ours = {
        (tuple(sorted((o.name, *o.aliases, *o.negatives))), o.arity, tuple(sorted(o.negatives)))
        for o in options
    }
    assert ours == real


STARTS = {
    "vLLM": (["vllm", "serve", "m"], ["--seed", "9"], "engine_args"),
    API_SERVER: (
        ["python3", "-m", "vllm.entrypoints.openai.api_server"],
        ["--model=m"],
        "engine_args",
    ),
    "SGLang": (["python3", "-m", "sglang.launch_server"], ["--model-path", "m"], "given"),
}


@pytest.mark.parametrize("name", FILES)
def test_config_file_words_equal_the_parser(request, name, tmp_path):
    """Before the argv: what stands in both is the argv's. Where we see no words, it stops."""
    of, text, words = FILES[name]
    (tmp_path / "f.yaml").write_text(text)
    file = ["--config", str(tmp_path / "f.yaml")]
    start, own, what = STARTS[of]
    client = request.getfixturevalue("sglang" if of == "SGLang" else "vllm")
    by_file = client.parse([*start, *own, *file])
    if words is None:
        assert not by_file.ok
        return
    by_words = client.parse([*start, *words, *own])
    assert by_file.ok, by_file.error
    assert by_words.ok, by_words.error
    results = by_file.result[what], by_words.result[what]
    for result in results:
        (result.get("kv_transfer_config") or {}).pop("engine_id", None)  # made anew each time
    assert results[0] == results[1]
