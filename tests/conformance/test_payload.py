"""A payload in a pod: its init container copies, and the engine's container finds it first.

The pod is what the function emits for an engine whose image holds older packages; in place of the
engine a program says what it imports. Real tokens: tests/serve/test_85_payload.py.
"""

import json
from pathlib import Path

import pytest

from tests.conformance.node import Node
from tests.serve import author, standins
from tests.serve.site import Site
from tests.serve.wiring import TIERS, Declared

PACKAGES = {
    "mooncake": ("mooncake-transfer-engine-non-cuda", "mooncake"),
    "lmcache": ("lmcache", "lmcache"),
}
SAYS = """
import importlib, importlib.metadata, json, sys
distribution, module = sys.argv[1:]
found = importlib.import_module(module)
print(json.dumps([importlib.metadata.version(distribution), found.__file__]))
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory):
    node = Node()
    made = Site(node, tmp_path_factory.mktemp("logs"))
    made.payload()
    yield made
    made.close()
    node.close()


def says(site: Site, package: str, wired: bool) -> tuple[str, str]:
    """(version, file) of a package as the engine's container imports it."""
    pod = {"main": author.vllm_of_an_older_image(author.USUAL)}
    tier = Declared(TIERS / f"{package}-payload.yaml")
    emitted = tier.wire(pod, policy="Required" if wired else "Off")
    for name, files in emitted.config_maps.items():
        site.node.config_maps[name] = files
    template = standins.PAYLOAD.apply(emitted.templates["main"])
    (engine,) = template["spec"]["containers"]
    program = {"command": ["python3", "-c", SAYS], "args": [*PACKAGES[package]]}
    for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
        engine.pop(probe, None)
    template["spec"]["containers"] = [{**engine, **program}]
    template["spec"]["initContainers"] = [
        each
        for each in template["spec"].get("initContainers", ())
        if each["name"] == "kv-offload-payload"
    ]
    started = site.start(template, f"{package}-{wired}", "vllm+older")
    container = started.containers["engine"]
    container._process.wait(120)
    log: str = container.log
    site.remove(started)
    version, file = json.loads(log.strip().splitlines()[-1])
    return version, file


@pytest.mark.parametrize("package", PACKAGES)
def test_the_payload_is_found_before_the_images_own(site: Site, package: str) -> None:
    own = site.image("vllm+older").packages
    assert own is not None
    before = sorted((p, p.stat().st_mtime_ns) for p in Path(own).rglob("*.py"))
    held, file = says(site, package, wired=False)
    assert (held, file.startswith(str(own))) == (author.HELD[package], True)
    used, file = says(site, package, wired=True)
    assert file.startswith("/opt/kv-offload-payload/")
    assert used != held
    # The image's own stays as it was, and is what other containers find.
    assert says(site, package, wired=False)[0] == held
    assert sorted((p, p.stat().st_mtime_ns) for p in Path(own).rglob("*.py")) == before
