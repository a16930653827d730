"""The evictor that tiers compose: program text, configuration and running process."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import programs
from function.api import placement
from function.api.evictor import Evictor
from function.backends import evictor
from function.backends.evictor import BoundedDirectory
from function.backends.lmcache import BACKEND
from function.backends.registry import BACKENDS
from function.contract.backend import AnyTier
from function.contract.image import Image
from tests.unit.backends.hicache import stored
from tests.unit.backends.lmcache import server
from tests.unit.backends.native import FILES, native
from tests.unit.programs.evictor import fill, left

DISK = {"name": "d", "type": "Disk", "disk": {"sizeGiB": 1, "hostPath": {"path": "/mnt/kv"}}}
IMAGE = Image.of(placement.AgentImage(), "an/image", "1")

# (settings, directory, its row, the fields of all)
CONFIG: tuple[tuple[Evictor, BoundedDirectory, dict[str, Any], dict[str, Any]], ...] = (
    (
        Evictor(),
        BoundedDirectory("/a", 100, 30),
        {"path": "/a", "bytes": 95 * 2**30, "period": 30},
        {"low": 94, "free": 5},
    ),
    (
        Evictor(high_percent=80, low_percent=40, keep_free_percent=0, dry_run=True),
        BoundedDirectory("/a", 10, 60, files=1000, empties=True),
        {"path": "/a", "bytes": 8 * 2**30, "period": 60, "inodes": 800, "empties": True},
        {"low": 50, "free": 0, "dry_run": True},
    ),
)


@pytest.mark.parametrize(("settings", "directory", "row", "defaults"), CONFIG)
def test_container_arguments_hold_the_configuration(
    settings: Evictor, directory: BoundedDirectory, row: dict[str, Any], defaults: dict[str, Any]
) -> None:
    container = evictor.container(IMAGE, "python3", settings, [directory], [])
    (told,) = container["args"]
    assert json.loads(told) == {"directories": [row], "defaults": defaults, "port": 8081}


def test_config_map_holds_the_program_text() -> None:
    part = evictor.program(server(DISK))
    assert part.key == "configmap-evictor"
    folder = Path(programs.__file__).parent / "evictor"
    assert part.manifest["data"] == {p.name: p.read_text() for p in folder.glob("*.py")}
    assert len(json.dumps(part.manifest)) < 2**20 / 4  # a ConfigMap may have 1 MiB


def test_no_files_no_evictor() -> None:
    redis = {"name": "r", "type": "Redis", "redis": {"host": "r"}}
    parts = BACKEND.parts(server(redis, spec={"monitoring": {"podMonitor": True}}))
    assert "evictor" not in json.dumps([part.manifest for part in parts])


def test_metrics_port_is_open_and_in_the_pod_monitor() -> None:
    """Where it is measured, the network lets it be, and the PodMonitor knows."""
    tier = server(DISK, spec={"monitoring": {"podMonitor": True}})
    parts = {part.key: part.manifest for part in BACKEND.parts(tier)}
    (_, rule) = parts["networkpolicy-agent"]["spec"]["ingress"]
    assert [port["port"] for port in rule["ports"]] == [8080, 8081]
    endpoints = parts["podmonitor-agent"]["spec"]["podMetricsEndpoints"]
    assert [endpoint["port"] for endpoint in endpoints] == ["http", "evictor"]


def test_composed_container_runs_until_sigterm(tmp_path: Path) -> None:
    """Its ConfigMap, command and arguments, with the paths of this machine, until SIGTERM."""
    parts = {part.key: part.manifest for part in BACKEND.parts(server(DISK))}
    pod = parts["daemonset-agent"]["spec"]["template"]["spec"]
    _, container = pod["containers"]
    mounts = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
    volumes = {volume["name"]: volume for volume in pod["volumes"]}
    assert volumes["evictor"]["configMap"]["name"] == parts["configmap-evictor"]["metadata"]["name"]
    assert mounts == {"l2-d": "/var/lib/kv-offload/d", "evictor": "/etc/kv-offload/evictor"}
    assert container["workingDir"] == "/etc/kv-offload"

    program = tmp_path / "etc" / "evictor"
    program.mkdir(parents=True)
    for name, text in parts["configmap-evictor"]["data"].items():
        (program / name).write_text(text)
    python, *words = container["command"]
    assert python == "/opt/venv/bin/python3"
    config = container["args"][0].replace("$$", "$").replace(mounts["l2-d"], str(tmp_path))
    config = config.replace(str(95 * 2**30 // 100), "100000").replace("8081", "0")
    cache = tmp_path / "chat-3f9ab"
    fill(cache, {"old": (60000, 900), "new": (60000, 300)})
    config = config.replace('"free":5', '"free":0')
    assert json.loads(config)["directories"][0] == {
        "path": str(cache),
        "bytes": 100000,
        "period": 30,
    }
    with subprocess.Popen([sys.executable, *words, config], cwd=program.parent) as process:
        end = time.monotonic() + 60
        while left(cache) != ["new"] and time.monotonic() < end:
            time.sleep(0.05)
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
    assert left(cache) == ["new"]


IDLE, WORKS = {"dryRun": True}, {"dryRun": False}
ON_A_CLAIM = {"sizeGiB": 8, "claim": {"claimName": "c"}}
# (tier, what the condition says of its evictor)
SAID: tuple[tuple[AnyTier, str], ...] = (
    *(
        (server(DISK, evictor=how), said)
        for how, said in ((IDLE, evictor.DRY_RUN_WARNING), (WORKS, ""))
    ),
    (server(evictor=IDLE), ""),
    *(
        (native(FILES, evictor=how), said)
        for how, said in ((IDLE, evictor.DRY_RUN_WARNING), (WORKS, ""))
    ),
    (native(evictor=IDLE), ""),
    (stored("File", {"evictor": {"sizeGiB": 9, **IDLE}}, **ON_A_CLAIM), evictor.DRY_RUN_WARNING),
    (stored("File", {"evictor": {"sizeGiB": 9, **IDLE}}, **ON_A_CLAIM), "not their sum"),
    (stored("File", {"evictor": {"sizeGiB": 9}}, **ON_A_CLAIM), ""),
)


@pytest.mark.parametrize(("of", "said"), SAID)
def test_dry_run_gives_a_warning(of: AnyTier, said: str) -> None:
    words = " ".join(BACKENDS[of.spec.backend].describe(of).warnings)
    assert said in words and ("dryRun" in words) == bool(said)
