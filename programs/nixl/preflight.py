"""Whether NIXL works on this node: preflight.py '{"backend": "UCX", ...}'.

Runs in any image with Python 3.9 and NIXL. It says what it found in one line, and again when that
changes; while all is well it listens at its port, which is its readiness, and otherwise sleeps.
"""

import ctypes
import http.client
import importlib
import importlib.metadata
import json
import os
import resource
import socket
import ssl
import subprocess
import sys
import threading
import time
import urllib.parse
from contextlib import suppress
from typing import Any

Config = dict[str, Any]

AGAIN, HUNG = 60, 120  # seconds until it looks again, and until a look counts as hung
SIZE = 1 << 20
INFINIBAND, VERBS = "/sys/class/infiniband", "/dev/infiniband"


class Trouble(Exception):
    """What is wrong, and what to do about it."""


def installed(config: Config) -> str:
    """The NIXL that is there: the module, and the package that brings its libraries."""
    names = ("nixl-cu13", "nixl-cu12", "nixl")
    found = {}
    for name in names:
        with suppress(importlib.metadata.PackageNotFoundError):
            found[name] = importlib.metadata.version(name)
    try:
        nixl()
    except ImportError as problem:
        raise Trouble(f"no NIXL in this image ({problem}): name one in spec.image") from None
    return ", ".join(f"{name} {version}" for name, version in found.items()) or "nixl"


def nixl() -> Any:
    """NIXL's Python. Raises ImportError, also where a library of its is missing."""
    return importlib.import_module("nixl._api")


def devices(config: Config) -> str:
    """Ports of the RDMA devices that the engines are to use."""
    if not config["rdma"]:
        return ""
    there = sorted(os.listdir(INFINIBAND)) if os.path.isdir(INFINIBAND) else []
    if not there:
        raise Trouble("this node shows no RDMA device: is its driver loaded?")
    missing = [name for name in config["devices"] if name not in there]
    if missing:
        raise Trouble(f"no device {', '.join(missing)} (spec.rdma.devices): {', '.join(there)}")
    wanted = config["devices"] or there
    states = {name: state(name) for name in wanted}
    active = [name for name in wanted if states[name] == "ACTIVE"]
    if not active or (config["devices"] and len(active) < len(wanted)):
        said = ", ".join(f"{name} is {state}" for name, state in states.items())
        raise Trouble(f"{said}: look at the cable, the switch and the driver")
    if config["device"] and not os.path.isdir(VERBS):
        raise Trouble(f"no {VERBS} in this container: does its device plugin or claim give one?")
    return f"RDMA {', '.join(active)}"


def state(device: str) -> str:
    """The state of a device's first port, e.g. ACTIVE."""
    try:
        with open(f"{INFINIBAND}/{device}/ports/1/state") as file:
            return file.read().rpartition(":")[2].strip() or "unknown"
    except OSError:
        return "without a port"


def memory(config: Config) -> str:
    """How much memory a process may lock: RDMA registers whole KV caches."""
    limit = resource.getrlimit(resource.RLIMIT_MEMLOCK)[0]
    if limit == resource.RLIM_INFINITY:
        return "memory lock unlimited"
    said = f"memory lock {limit // 1024} KiB"
    if not config["rdma"]:
        return said
    if config["device"] and not may_lock():
        raise Trouble(f"{said}, and no IPC_LOCK: raise memlock in the node's container runtime")
    return f"{said} (engines need IPC_LOCK as root, or a runtime without the limit)"


def may_lock() -> bool:
    """Whether CAP_IPC_LOCK (14) is effective here."""
    with open("/proc/self/status") as file:
        lines = dict(line.split(":", 1) for line in file if ":" in line)
    return bool(int(lines["CapEff"].strip(), 16) >> 14 & 1)


def plugins(config: Config) -> str:
    """Each plugin is made, since a listed one may lack a library."""
    api = nixl()
    agent = api.nixl_agent("preflight", api.nixl_agent_config(backends=[]))
    broken = []
    for name in config["plugins"]:
        try:
            agent.create_backend(name, {})
        except Exception as problem:
            broken.append(f"{name} ({problem})")
    if broken:
        raise Trouble(
            f"plugins that do not load: {', '.join(broken)}; use an image that has what they need"
        )
    return " ".join(config["plugins"]) + (" load" if len(config["plugins"]) > 1 else " loads")


def transfer(config: Config) -> str:
    """One agent reads a MiB of another's, as decode reads prefill's."""
    api, name = nixl(), config["backend"]
    ours, theirs = (ctypes.c_char * SIZE)(), (ctypes.c_char * SIZE)()
    ctypes.memmove(theirs, os.urandom(SIZE), SIZE)
    agents, places = [], []
    for label, block in (("decode", ours), ("prefill", theirs)):
        agent = api.nixl_agent(label, api.nixl_agent_config(backends=[name]))
        places.append((ctypes.addressof(block), SIZE, 0))
        agent.register_memory([(*places[-1], "")], "DRAM", backends=[name])
        agents.append(agent)
    decode, prefill = agents
    peer = decode.add_remote_agent(prefill.get_agent_metadata())
    peer = peer.decode() if isinstance(peer, bytes) else peer
    local, remote = (decode.get_xfer_descs([place], "DRAM") for place in places)
    begun = time.monotonic()
    handle = decode.initialize_xfer("READ", local, remote, peer, b"")
    said = decode.transfer(handle)
    while said not in ("DONE", "ERR"):
        time.sleep(0.001)
        said = decode.check_xfer_state(handle)
    if said != "DONE" or bytes(ours) != bytes(theirs):
        raise Trouble(f"a transfer by {name} inside this node ended in {said} with other bytes")
    return f"1 MiB by {name} in {(time.monotonic() - begun) * 1000:.0f} ms"


def store(config: Config) -> str:
    """Whether the object store answers, and has the bucket; without keys, so 403 will do."""
    wanted = config.get("store")
    if not wanted:
        return ""
    url = urllib.parse.urlsplit(wanted["endpoint"])
    where = f"{wanted['endpoint']}/{wanted['bucket']}"
    trusts = "caConfigMap" if "ca" in wanted else "the image"
    try:
        connection: http.client.HTTPConnection
        if url.scheme == "https":
            trusted = ssl.create_default_context(cafile=wanted.get("ca"))
            connection = http.client.HTTPSConnection(
                url.hostname, url.port, timeout=10, context=trusted
            )
        else:
            connection = http.client.HTTPConnection(url.hostname, url.port, timeout=10)
        connection.request("HEAD", f"/{wanted['bucket']}")
        status = connection.getresponse().status
    except ssl.SSLError as problem:
        raise Trouble(f"{where}: {problem}: {trusts} does not trust its certificate") from None
    except (OSError, http.client.HTTPException) as problem:
        raise Trouble(f"{where} does not answer ({problem}): look at DNS and policies") from None
    if status == 404:
        raise Trouble(f"{where}: no such bucket")
    if status >= 500:
        raise Trouble(f"{where} answers {status}")
    return f"{where} answers {status}"


CHECKS = (installed, devices, memory, plugins, transfer, store)


def look(config: Config) -> tuple[bool, str]:
    """(whether all is well, the line): what is wrong alone, or everything that was found."""
    good, bad = [], []
    for check in CHECKS:
        try:
            good.append(check(config))
        except Trouble as problem:
            bad.append(str(problem))
        except Exception as problem:
            bad.append(f"{check.__name__}: {type(problem).__name__}: {problem}")
        if bad and check is installed:
            break
    return not bad, "; ".join(bad or filter(None, good))


def look_apart(config: Config) -> tuple[bool, str]:
    """The same in a process of its own: UCX may crash at its end, hang, and keep its memory."""
    command = [sys.executable, os.path.abspath(__file__), json.dumps(config), "once"]
    try:
        ran = subprocess.run(command, capture_output=True, text=True, timeout=HUNG, check=False)
    except subprocess.TimeoutExpired:
        return False, f"the look hung for {HUNG} s: no port left for UCX, or a device that hangs"
    lines = ran.stdout.splitlines()
    try:
        well, line = json.loads(lines[-1])
        return bool(well), str(line)
    except (IndexError, ValueError):
        said = ran.stderr.strip().splitlines()[-1:] or ["nothing said"]
        return False, f"the look ended with {ran.returncode}: {said[0][:300]}"


def serve(port: int) -> None:
    """Be ready: answer the kubelet's connections, and nothing else."""
    server = socket.create_server(("", port), family=socket.AF_INET, backlog=16)
    while True:
        server.accept()[0].close()


def main(arguments: list[str]) -> None:
    config = json.loads(arguments[0])
    if arguments[1:] == ["once"]:
        print(json.dumps(look(config)), flush=True)
        os._exit(0)
    said = ""
    while True:
        well, line = look_apart(config)
        if line != said:
            print(("NIXL works here: " if well else "NIXL does not work here: ") + line, flush=True)
            said = line
        if well:
            serve(config["port"])
        threading.Event().wait(AGAIN)


if __name__ == "__main__":
    main(sys.argv[1:])
