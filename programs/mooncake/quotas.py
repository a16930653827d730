"""Hold a master to shares: quotas.py copy FILE TO at its start, then quotas.py keep FILE ADMIN

FILE: {"version": 1, "tenants": [{"name": NAME, "quota": BYTES}]}, which may change at any time. TO:
where the master reads it at its start, and writes what it is told later. ADMIN: http://HOST:PORT of
this master's own admin server. Never ends and never fails: a standby, or a master that starts, is
asked again.

Moving a block off a store that drains counts twice for its tenant until it is done, and a tenant at
its share would keep none of those blocks. So while a store drains, what is free is added to the
shares, in equal parts.
"""

import json
import shutil
import signal
import sys
import time
import urllib.request
from typing import Any
from urllib.parse import quote

POLL = 1  # seconds


def say(*words: object) -> None:
    print("quotas:", *words, flush=True)


def ask(url: str, method: str = "GET", body: object = None) -> Any:
    data = None if body is None else json.dumps(body).encode()
    headers = {"Content-Type": "application/json"}
    request = urllib.request.Request(url, data, headers, method=method)
    with urllib.request.urlopen(request, timeout=10) as answer:
        return json.load(answer)


def shares(path: str) -> dict[str, int]:
    """{tenant: bytes} of the file."""
    with open(path) as file:
        return {row["name"]: int(row["quota"]) for row in json.load(file)["tenants"]}


def draining(segments: list[Any]) -> list[str]:
    return sorted(s["segment_name"] for s in segments if s["status"] == "DRAINING")


def widened(own: dict[str, int], held: dict[str, int], segments: list[Any]) -> dict[str, int]:
    """The shares while a store drains: what each holds, and an equal part of what is free."""
    room = sum(s["size_bytes"] for s in segments if s["status"] == "OK")
    free = max(0, room - sum(held.values()))
    return {name: max(share, held.get(name, 0) + free // len(own)) for name, share in own.items()}


class Keeper:
    """`moving`: the segments that drain; `wide`: the shares meanwhile; `said`: the last error."""

    def __init__(self, path: str, admin: str) -> None:
        self.path, self.admin = path, admin
        self.moving: list[str] = []
        self.wide: dict[str, int] = {}
        self.said = ""

    def once(self) -> None:
        own = shares(self.path)
        found = ask(f"{self.admin}/api/v1/tenant_quotas")["data"]
        segments = ask(f"{self.admin}/get_segments_detail")["segments"]
        now = draining(segments)
        if now != self.moving:
            self.moving = now
            held = {row["tenant_id"]: row["charged_bytes"] for row in found}
            self.wide = widened(own, held, segments) if now else {}
            say("a store drains:" if now else "no store drains:", self.wide or own)
        for name, size in own.items():
            own[name] = max(size, self.wide.get(name, 0))
        rows = {row["tenant_id"]: row for row in found if row["has_explicit_policy"]}
        for name, size in own.items():
            if name not in rows or rows[name]["requested_quota_bytes"] != size:
                ask(self.at(name), "PUT", {"requested_quota_bytes": size})
                say(name, "may hold", size, "bytes")
        for name in rows.keys() - own.keys():
            # Nobody writes for it any more: its blocks would stay beside everybody's shares.
            ask(f"{self.admin}/api/v1/remove_all?force=true&tenant_id={quote(name)}", "POST", {})
            ask(self.at(name), "DELETE")
            say(name, "has no share any more")

    def at(self, name: str) -> str:
        return f"{self.admin}/api/v1/tenant_quotas?tenant_id={quote(name)}"

    def forever(self) -> None:
        while True:
            try:
                self.once()
                self.said = ""
            except Exception as error:  # a standby, a master that starts, a file half mounted
                if f"{error}" != self.said:
                    self.said = f"{error}"
                    say(f"{type(error).__name__}: {error}; asking again")
            time.sleep(POLL)


def main(what: str, source: str, to: str) -> None:
    if what == "copy":
        say("shares at the start:", shares(source))
        shutil.copyfile(source, to)
        return
    # Process 1 ignores a signal that it has no handler for.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    Keeper(source, to).forever()


if __name__ == "__main__":
    main(*sys.argv[1:])
