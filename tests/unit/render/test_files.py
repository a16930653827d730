"""Inputs that cannot be used are refused with the file, the place and the field."""

from pathlib import Path

import pytest

from kv_offload.render import files
from tests.unit.kube.test_yamls import BOMB


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: [", "x.yaml:2:1: not valid YAML"),
        ("a: 1\na: 2", "x.yaml:2:1: not valid YAML: the key 'a' stands twice"),
        ("- a", "x.yaml: document 1 is a list, not a Kubernetes object"),
        ("a\n---\n", "x.yaml: document 1 is a str"),
        ("kind: A", "x.yaml: document 1: apiVersion is missing"),
        ("apiVersion: v1", "x.yaml: document 1: kind is missing"),
        ("apiVersion: v1\nkind: 3", "x.yaml: document 1: kind is missing"),
        ("apiVersion: v1\nkind: A\nmetadata: b", "x.yaml: document 1: metadata must be an object"),
        ("a: !foo 1", "x.yaml:1:4: not valid YAML: could not determine"),
        ("!foo a: 1", "x.yaml:1:1: not valid YAML: could not determine"),
        ("[a]: 1", "x.yaml:1:1: not valid YAML: found unhashable key"),
        ("a: &a [*a]", "x.yaml: document 1 cannot be JSON: Circular reference"),
        ("a: !!binary YQ==", "x.yaml: document 1 cannot be JSON: Object of type bytes"),
        ("a: .nan", "x.yaml: document 1 cannot be JSON: Out of range float"),
        ("a: !!python/object:os.system 1", "x.yaml:1:4: not valid YAML: could not determine"),
        ("a: " + "[" * 100_000, "x.yaml:1:103: not valid YAML: it is nested more than 100 levels"),
        (BOMB, "x.yaml:6:8: not valid YAML: aliases stand for more than 100000 values"),
        ("a: *b", "x.yaml:1:4: not valid YAML: found undefined alias"),
    ],
)
def test_invalid_files_are_refused_with_their_place(
    tmp_path: Path, text: str, message: str
) -> None:
    path = tmp_path / "x.yaml"
    path.write_text(text)
    with pytest.raises(files.InputError) as error:
        files.load(path)
    assert str(error.value).removeprefix(f"{tmp_path}/").startswith(message)


def test_directories_are_read_in_order_without_subdirectories(tmp_path: Path) -> None:
    for name in ("b.yaml", "a.yml", "c.txt", "sub/d.yaml"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(f"apiVersion: v1\nkind: K\nmetadata: {{name: {name}}}\n---\n")
    names = [d["metadata"]["name"] for d in files.load(tmp_path)]
    assert names == ["a.yml", "b.yaml"]


def test_missing_and_empty_paths(tmp_path: Path) -> None:
    with pytest.raises(files.InputError, match=r"no \.yaml or \.yml file"):
        files.load(tmp_path)
    with pytest.raises(files.InputError, match="No such file"):
        files.load(tmp_path / "absent.yaml")
    with pytest.raises(files.InputError, match="not a directory"):
        files.load_schemas(tmp_path / "absent")


def test_keys_are_strings() -> None:
    assert files.parse("1: a\nyes: b\n", "x") == [{"1": "a", "true": "b"}]


def test_one_document_is_expected(tmp_path: Path) -> None:
    path = tmp_path / "x.yaml"
    path.write_text("apiVersion: v1\nkind: A\n---\napiVersion: v1\nkind: B\n")
    with pytest.raises(files.InputError, match="2 documents, expected one composite"):
        files.load_one(path, "composite")


def test_the_only_item_of_a_list_is_one_document(tmp_path: Path) -> None:
    path = tmp_path / "x.yaml"
    path.write_text("apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: A}\n")
    assert files.load_one(path, "composite") == {"apiVersion": "v1", "kind": "A"}
