"""A control plane that installs signed packages only: the policy of docs/install.md.

Crossplane's check demands an entry of a transparency log and reads Sigstore's root certificates at
its start. Both are a test's own here, so that nothing leaves the machine: the log is a key
(log.py), the root certificate comes from a TUF repository on disk (tests/tools/trust).
"""

import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml
from cryptography.hazmat.primitives.asymmetric import ec

from tests.cluster.documents import FIRST
from tests.cluster.expect import Fleet
from tests.cluster.rig import crossplane
from tests.cluster.rig.certs import Authority
from tests.cluster.rig.functions import CHECKOUT
from tests.cluster.rig.kube import Manifest, is_true
from tests.cluster.rig.up import Rig
from tests.release.conftest import Released
from tests.release.control import Control
from tests.release.kubelet import Kubelet
from tests.release.log import Log
from tests.release.made import Keys
from tests.tools.find import require
from tools.release import signing


@dataclass
class Guarded:
    """A control plane with the policy, and the log that it trusts."""

    control: Control
    log: Log

    def enter(self, version: str, keys: Keys) -> None:
        """Sign all packages of a release with a key, and enter that into the log."""
        signer = signing.private_key(keys.private)
        for package in self.control.packages(version):
            repository, _, digest = package.partition("@")
            self.log.enter(signer, repository, digest)

    @property
    def function(self) -> Manifest:
        (found,) = self.control.installed("Function")
        return found

    def until_refused(self, text: str) -> None:
        """Wait until Crossplane refuses the function's package, with this text in a condition."""
        self.control.world.rig.until(
            lambda: f"signature verification failed: {text}" in self.messages,
            f"{text}: the package is refused",
            60,
            explain=lambda: self.messages,
        )

    @property
    def messages(self) -> str:
        conditions = self.function.get("status", {}).get("conditions", ())
        return " ".join(each.get("message", "") for each in conditions)


@pytest.fixture(scope="module")
def guarded(released: Released, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    folder = tmp_path_factory.mktemp("trust")
    log = Log(ec.generate_private_key(ec.SECP256R1()))
    (folder / "log.pub").write_bytes(signing.public_pem(log.key))
    (folder / "root.pem").write_bytes(Authority.new().pem)
    cache = folder / "xpkg"
    subprocess.run([require("trust"), folder / "tuf", folder / "root.pem", cache], check=True)
    trusts = {
        "XPKG_CACHE_DIR": str(cache),
        "SIGSTORE_REKOR_PUBLIC_KEY": str(folder / "log.pub"),
        "SIGSTORE_CT_LOG_PUBLIC_KEY_FILE": str(folder / "log.pub"),
    }
    with Rig(
        CHECKOUT / ".run" / "release-policy",
        (FIRST,),
        core_flags=(*crossplane.FLEET_FLAGS, "--enable-signature-verification"),
        core_environment=trusts,
        with_lws=False,
        registers=False,
    ) as rig:
        kubelet = Kubelet(rig, tmp_path_factory.mktemp("unpacked"), "team-function-kv-offload")
        control = Control(Fleet(rig), kubelet, released.made)
        key = f"--from-file={released.keys.public}"
        secret = ("secret", "generic", "release-key", f"--namespace={crossplane.NAMESPACE}", key)
        control.kubectl("create", *secret)
        rig.control.api.apply(_policy(released.registry))
        try:
            yield Guarded(control, log)
        finally:
            kubelet.stop()


def _policy(registry: str) -> Manifest:
    page = (CHECKOUT / "docs" / "install.md").read_text()
    (text,) = (t for t in re.findall(r"```yaml\n(.*?)```", page, re.DOTALL) if "Cosign" in t)
    return yaml.safe_load(text.replace("registry.example.org/team", registry))


def test_signature_of_the_release_alone_is_refused(guarded: Guarded):
    """`make release` enters nothing into a log."""
    guarded.control.kubectl("apply", *guarded.control.files("v0.1.0"))
    guarded.until_refused('authority "release": signature verification failed')
    assert "rekor client not provided for online verification" in guarded.messages
    assert not is_true(guarded.function, "Installed")
    assert guarded.control.installed("FunctionRevision") == []


def test_signature_with_a_log_entry_is_installed(guarded: Guarded, released: Released):
    guarded.enter("v0.1.0", released.keys)
    guarded.control.install("v0.1.0")
    assert guarded.control.version() == "0.1.0"


def test_version_signed_by_another_key_changes_nothing(
    guarded: Guarded, released: Released, tmp_path: Path
):
    guarded.enter("v0.2.0", Keys(tmp_path / "other").make())
    before = guarded.control.kubelet.revisions("Active")
    guarded.control.kubectl("apply", *guarded.control.files("v0.2.0"))
    guarded.until_refused('authority "release": signature verification failed')
    now = guarded.control.kubelet.revisions("Active")
    assert [each["spec"]["image"] for each in now] == [each["spec"]["image"] for each in before]
    assert guarded.control.version() == "0.1.0"
    guarded.enter("v0.2.0", released.keys)
    guarded.control.settle("v0.2.0")
    assert guarded.control.version() == "0.2.0"
