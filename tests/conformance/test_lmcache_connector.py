"""Our connector class around the connector of each LMCache that engines' images have."""

import json
import os
import subprocess

import pytest

from function.backends.lmcache import modules
from tests.conformance.clients import CHECKERS
from tests.conformance.envs import RELEASES, environment, release
from tests.serve.models import write_adapter

OWN = "lmcache==0.5.6"
IDENTITY, DIGEST = "0123456789ab", "fedcba9876543210"


@pytest.mark.parametrize("requirement", [*RELEASES, OWN])
def test_keys_hold_identity_digest_and_adapter(requirement: str, tmp_path) -> None:
    text = tmp_path / "connector.py"
    text.write_text(modules.module(modules.MP_CONNECTOR).text)
    adapter = write_adapter(tmp_path / "sql", seed=1)
    path = {} if requirement == OWN else {"PYTHONPATH": str(release(requirement))}
    done = subprocess.run(
        [
            *(environment("vllm").python, CHECKERS / "lmcache_key.py"),
            *(text, IDENTITY, DIGEST, adapter),
        ],
        capture_output=True,
        text=True,
        env=os.environ | {"VLLM_TARGET_DEVICE": "cpu", "TMPDIR": str(tmp_path), **path},
    )
    assert done.returncode == 0, done.stderr[-3000:]
    said = json.loads(done.stdout.splitlines()[-1])
    assert said["version"] == requirement.partition("==")[2]
    assert set(said["names"].values()) == {f"/mnt/models##kv-offload-{IDENTITY}-{DIGEST}"}
    assert said["pings"]
    plain, adapted, tenant = said["salts"]
    assert plain == ""
    assert adapted != tenant and all(s.startswith("kv-offload-") for s in (adapted, tenant))
