"""Generated pages match the tables, and the tables are complete."""

import os
import re
import subprocess
import sys
from itertools import takewhile
from pathlib import Path

import pytest

from function.api.backends import SPECS
from function.contract.models.families import ARCHITECTURES
from function.contract.no_engines import NO_ENGINES
from function.contract.stock_images import contents
from function.contract.stock_images.repositories import REPOSITORIES
from function.contract.versions import releases
from function.engines.vllm import connectors
from function.pods.other_injectors import INJECTORS
from function.reasons import Reason
from function.workloads import kinds
from kv_offload import docs
from kv_offload.docs import links, matrix, site
from kv_offload.docs.backend_rows import accelerator_rows, gate_rows, model_rows
from kv_offload.docs.lmcache_builds import WHEELS
from kv_offload.docs.reasons import REASONS, Pods

ROOT = Path(__file__).parents[2]


def test_pages_are_up_to_date():
    assert list(docs.drift(ROOT)) == []


def test_drift_is_noticed(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert docs.main(["--check"]) == 1
    assert docs.main([]) == 0
    assert docs.main(["--check"]) == 0
    (tmp_path / "docs/reasons.md").write_text("other")
    assert list(docs.drift(tmp_path)) == ["docs/reasons.md"]
    assert "docs/versions.md differs from its table" in capsys.readouterr().out


def test_reasons_are_complete():
    for name, reason in REASONS.items():
        assert name is reason.name and name.isalnum() and name[0].isupper()
        assert reason.meaning.endswith(".") and reason.fix.endswith(".") and reason.example
        assert reason.pods in Pods
    assert [name for name, reason in REASONS.items() if reason.ready] == ["Wired"]
    assert set(REASONS) == set(Reason)


def test_pages_name_every_row():
    pages = docs.pages()
    assert all(f"## {name}\n" in pages["docs/reasons.md"] for name in REASONS)
    assert all(f"`{row.connector}`" in pages["docs/versions.md"] for row in gate_rows())
    assert all(f"`{name}`" in pages["docs/connectors.md"] for name in connectors.known())


def test_pages_name_every_fact():
    """Each table in its page: a row that no page shows is a row that nobody can check."""
    pages = docs.pages()
    images = pages["docs/images.md"]
    assert [row.path for row in REPOSITORIES if f"`{row.path}`" not in images] == []
    held = [contents(f"vllm/vllm-openai:v{row.version}") for row in releases("vLLM")]
    assert all(fact.source for found in held if found for fact in found.packages.values())
    models = pages["docs/models.md"]
    assert [row for row in model_rows() if row.message not in models] == []
    assert all(name in models for row in ARCHITECTURES for name in row.names)
    accelerators = pages["docs/accelerators.md"]
    assert [row for row in accelerator_rows() if row.message not in accelerators] == []
    neighbours = pages["docs/neighbours.md"]
    assert all(row.key in neighbours for row in INJECTORS)
    assert all(row.label in neighbours for row in NO_ENGINES)


def _rows(head: str) -> dict[tuple[str, str], list[str]]:
    lines = matrix.lines()
    start = next(i for i, line in enumerate(lines) if line.startswith(head)) + 2
    rows = takewhile(lambda line: line.startswith("|"), lines[start:])
    cells = ([cell.strip() for cell in row.split("|")[1:-1]] for row in rows)
    return {(tier, engine): rest for tiers, engine, *rest in cells for tier in tiers.split("; ")}


def test_matrix_matches_the_gate():
    """One answer of each kind, known from the gate's rows and from conflicts."""
    families, shapes = _rows("| Tier | Engine | Versions"), _rows("| Tier | Engine | tensor")
    versions, _own, dense, hybrid, *_ = families["Mooncake", "vLLM"]
    assert (versions, dense, hybrid) == ("`>=0.22.0`", "yes", "`>=0.29.0` careful")
    assert families["LMCache NodeServer", "vLLM"][3] == "no"
    assert ("LMCache NodeServer", "SGLang") not in families, "isolated IPC is vLLM's"
    assert ("NIXL", "SGLang") in families, "it takes halves of a pair alone"
    assert set(families) == set(shapes)
    over_pods = [shape.name for shape in matrix.SHAPES].index("tensor parallel over pods")
    assert shapes["LMCache NodeServer", "vLLM"][over_pods] == "no"
    assert shapes["Mooncake", "vLLM"][over_pods] == "yes"
    assert shapes["Native, FileSystem", "vLLM"][over_pods] == "no"
    assert {tier["backend"] for tier in matrix.TIERS.values()} == set(SPECS)


def test_lmcache_page_names_images_with_a_matching_torch() -> None:
    """What docs/lmcache.md says by hand of the newest wheel, held to the tables of images."""
    newest, torch, cuda = WHEELS[-1].lmcache, WHEELS[-1].torch, WHEELS[-1].cuda
    vllms, sglangs = (
        [row.version for row in releases(engine) if row.holds["torch"] == (torch,)]
        for engine in ("vLLM", "SGLang")
    )
    minors = [".".join(version.split(".")[:2]) for version in (vllms[0], vllms[-1])]
    assert (
        f"LMCache's wheel {newest} is built for torch {torch} and CUDA {cuda}. vLLM {minors[0]} to "
        f"{minors[1]} and SGLang {sglangs[0]} to {sglangs[-1]} have that torch"
    ) in (ROOT / "docs/lmcache.md").read_text()


def test_links_resolve():
    assert links.broken(ROOT) == []


def test_broken_links_are_found(tmp_path):
    (tmp_path / "docs").mkdir()
    (tmp_path / "README.md").write_text(
        "[a](docs/a.md#the-first-one) [b](docs/a.md#second) [c](c.md) [d](https://x.example/y)\n"
        "```\n[e](in-a-fence.md)\n```\n`[f](in-code.md)` [g](#readme) \n"
    )
    (tmp_path / "docs/a.md").write_text("## The `first` one\n[h](../README.md)\n")
    assert links.broken(tmp_path) == [
        "README.md: docs/a.md#second",
        "README.md: c.md",
        "README.md: #readme",
    ]


def test_the_index_and_the_site_list_every_page():
    index = {path for path, _ in links.targets(ROOT / "docs/index.md")}
    nav = (ROOT / "properdocs.yml").read_text()
    pages = {page.name for page in (ROOT / "docs").glob("*.md")} - {"index.md"}
    assert pages - index == set()
    assert {page for page in pages if f"docs/{page}\n" not in nav} == set()


def test_the_site_has_every_page_and_what_it_links_to(tmp_path, monkeypatch):
    (tmp_path / "docs").mkdir()
    (tmp_path / "README.md").write_text("[a](docs/a.md) [x](example/x.yaml) [dir](example)")
    (tmp_path / "docs/a.md").write_text("[y](../example/y.yaml#first)")
    (tmp_path / "example").mkdir()
    for name in ("x.yaml", "y.yaml", "z.yaml"):
        (tmp_path / "example" / name).write_text(name)
    monkeypatch.chdir(tmp_path)
    assert site.main() == 0
    staged = {
        str(f.relative_to(tmp_path / site.STAGE)) for f in (tmp_path / site.STAGE).rglob("*.*")
    }
    assert staged == {"README.md", "docs/a.md", "example/x.yaml", "example/y.yaml"}


def test_every_known_workload_kind_is_on_the_page():
    text = (ROOT / "docs/wire-a-team.md").read_text()
    assert [kind for _, kind in kinds._KINDS if f"`{kind}`" not in text] == []


OURS = re.compile(r"`((?:function|kv_offload|programs|tests|docs|example|package|xrd)/[\w./-]+)`")


def test_repository_paths_in_pages_exist():
    """Paths with NAME or `<...>` are forms; a test's name after `::` is held below."""
    named = {
        (page.name, path)
        for page in links.pages(ROOT)
        for path in OURS.findall(page.read_text())
        if "NAME" not in path
    }
    assert len(named) > 30
    assert [(page, path) for page, path in sorted(named) if not (ROOT / path).exists()] == []


CONSOLE = re.compile(r"^```console\n\$ (.*kv-offload .*)\n((?:.+\n)*?)```$", re.MULTILINE)
SHOWN = [
    pytest.param(command, output, id=f"{page.name}: {command[:40]}")
    for page in (ROOT / "README.md", ROOT / "docs/tutorial.md", ROOT / "docs/change-a-fleet.md")
    for command, output in CONSOLE.findall(page.read_text())
]


@pytest.mark.parametrize(("command", "output"), SHOWN)
def test_console_output_equals_the_command_output(command, output):
    """A line with "..." stands for lines that the page leaves out."""
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = subprocess.run(
        command,
        shell=True,
        cwd=ROOT,
        text=True,
        capture_output=True,
        env={**os.environ, "PATH": path},
    )
    printed = {line.lstrip("│├└─ ") for line in done.stdout.splitlines()}
    shown = [line.lstrip("│├└─ ") for line in output.splitlines() if "..." not in line]
    assert [line for line in shown if line not in printed] == [], done.stdout + done.stderr


def test_pages_show_console_output():
    assert len(SHOWN) >= 4


NAMED = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_tests_named_in_pages_exist(page: Path) -> None:
    for file, name in NAMED.findall(page.read_text()):
        assert f"\ndef {name}(" in (ROOT / file).read_text(), f"{file}::{name}"


def test_every_claim_names_its_test_or_its_source() -> None:
    lines = (ROOT / "docs/claims.md").read_text().splitlines()
    shown = [line.split("|")[2].strip() for line in lines if line.startswith("| ")]
    claims = [column for column in shown if column != "Shown by"]
    assert len(claims) > 40
    assert [column for column in claims if not NAMED.search(column) and "here" not in column] == []
