"""Releases as `make release` makes them, of commits that no branch has."""

import os
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from tests.cluster.rig.functions import CHECKOUT
from tools.release.signing import PrivateKey, public_pem

# From path to the texts that are replaced in it.
Edits = Mapping[str, Mapping[str, str]]
CRASHES = {"function/main.py": {'"""': 'raise SystemExit("broken")\n"""'}}


@dataclass(frozen=True)
class Keys:
    """A signing key of one test run."""

    folder: Path

    @property
    def private(self) -> Path:
        return self.folder / "release.key"

    @property
    def public(self) -> Path:
        return self.folder / "release.pub"

    def make(self) -> "Keys":
        key: PrivateKey = ec.generate_private_key(ec.SECP256R1())
        encoding, kind = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
        self.folder.mkdir(parents=True)
        self.private.write_bytes(key.private_bytes(encoding, kind, serialization.NoEncryption()))
        self.public.write_bytes(public_pem(key))
        return self


def commit(version: str = "0.1.0", edits: Edits = {}) -> str:  # noqa: B006
    """Return a commit of what is committed or staged here, with another version and more edits."""
    base = _git("stash", "create") or _git("rev-parse", "HEAD")
    changed: dict[str, Mapping[str, str]] = dict(edits)
    if version != "0.1.0":
        changed["pyproject.toml"] = {'version = "0.1.0"': f'version = "{version}"'}
        changed["CHANGELOG.md"] = {"## 0.1.0": f"## {version}"}
    if not changed:
        return base
    with tempfile.TemporaryDirectory() as scratch:
        index = {"GIT_INDEX_FILE": f"{scratch}/index"}
        _git("read-tree", base, **index)
        for path, texts in changed.items():
            text = _git("show", f"{base}:{path}") + "\n"
            for old, new in texts.items():
                assert old in text, f"{path} has no {old!r}"
                text = text.replace(old, new, 1)
            blob = _git("hash-object", "-w", "--stdin", given=text)
            _git("update-index", "--cacheinfo", f"100644,{blob},{path}", **index)
        tree = _git("write-tree", **index)
    person = {
        f"GIT_{who}_{what}": "test@test"
        for who in ("AUTHOR", "COMMITTER")
        for what in ("NAME", "EMAIL")
    }
    return _git("commit-tree", tree, "-p", base, "-m", version, **person)


def make(commit: str, version: str, registry: str, out: Path, **variables: str) -> Path:
    """Run `make release` for this machine's architecture."""
    arguments = f"--commit {commit} --out {out} {variables.pop('more', '')}"
    given = {"VERSION": f"v{version}", "REGISTRY": registry, "RELEASE_ARGS": arguments} | variables
    command = ["make", "--silent", "release", *(f"{key}={value}" for key, value in given.items())]
    done = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return out


def _git(*arguments: str, given: str = "", **environment: str) -> str:
    command = ["git", "-C", str(CHECKOUT), *arguments]
    done = subprocess.run(
        command,
        input=given,
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | environment,
    )
    return done.stdout.rstrip("\n")
