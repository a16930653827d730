"""Wait for ever until each server answers: wait.py [WAY HOST:PORT[,HOST:PORT]...]..."""

import os
import re
import signal
import socket
import sys
import time
from typing import BinaryIO

PERIOD = 2  # seconds between two tries
SAY = 10  # seconds between two lines of the log
TIMEOUT = 5  # seconds for a connection, and for each reply


def ask(stream: BinaryIO, *words: bytes) -> str:
    """The first line of Redis' reply to a command, up to what it may quote of the command."""
    parts = [b"*%d\r\n" % len(words), *(b"$%d\r\n%s\r\n" % (len(word), word) for word in words)]
    stream.write(b"".join(parts))
    stream.flush()
    return re.split("['`]", stream.readline().decode(errors="replace"))[0].strip()


def trouble(way: str, node: str) -> str:
    """Why a node is of no use yet, empty if it is: `connect` only connects, `ping` logs in too."""
    host, _, port = node.rpartition(":")
    user = [os.fsencode(word) for word in (os.environ.get("LMCACHE_RESP_USERNAME"),) if word]
    password = os.fsencode(os.environ.get("LMCACHE_RESP_PASSWORD", ""))
    try:
        with socket.create_connection((host.strip("[]"), int(port)), TIMEOUT) as connection:
            if way == "connect":
                return ""
            with connection.makefile("rwb") as stream:
                said = ask(stream, b"AUTH", *user, password) if password else "+OK"
                if said.startswith("+"):
                    said = ask(stream, b"PING")
                # A user who may not PING has been let in all the same.
                good = said.startswith(("+", "-NOPERM"))
                return "" if good else said or "it closed the connection"
    except OSError as problem:
        return str(problem)


def wait(way: str, nodes: str) -> None:
    """Return when one of the nodes is of use; say what is the matter until then."""
    begun = time.monotonic()
    said = begun - SAY
    while True:
        found = {node: trouble(way, node) for node in nodes.split(",")}
        if "" in found.values():
            return print(f"{nodes} answers", flush=True)
        if time.monotonic() - said >= SAY:
            said = time.monotonic()
            why = "; ".join(f"{node}: {problem}" for node, problem in found.items())
            print(f"waiting for {said - begun:.0f} s: {why}", flush=True)
        time.sleep(PERIOD)


def main(arguments: list[str]) -> None:
    # Process 1 ignores a signal that it has no handler for; 0 would mean that all answered.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    for way, nodes in zip(arguments[::2], arguments[1::2], strict=True):
        wait(way, nodes)


if __name__ == "__main__":
    main(sys.argv[1:])
