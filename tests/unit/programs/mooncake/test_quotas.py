"""The program that writes quotas to a master, with a fake master.

What the real master does with it is in tests/conformance/test_mooncake_tenants.py.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from programs.mooncake import quotas
from tests.unit.programs.mooncake.admin import Admin, Handler

STORES = [
    {"segment_name": "10.0.0.5:12300", "status": "OK", "size_bytes": 500},
    {"segment_name": "10.0.0.6:12300", "status": "OK", "size_bytes": 500},
]
DRAINS = [{**STORES[0], "status": "DRAINING"}, STORES[1]]


class Master(Admin):
    """`held`: bytes of each tenant. `shares`: what it was told. `away`: answers 503, a standby."""

    def __init__(self, shares: dict[str, int], held: dict[str, int]) -> None:
        self.shares, self.held = shares, held
        self.segments, self.away = STORES, False
        self.asked: list[tuple[str, str]] = []
        outer = self

        class Answers(Handler):
            def do_GET(self) -> None:
                rows = [outer.row(name) for name in sorted({*outer.shares, *outer.held})]
                segments = {"segments": outer.segments}
                self.say(segments if "segments" in self.path else {"data": rows})

            def do_PUT(self) -> None:
                outer.shares[self.tenant()] = self.body()["requested_quota_bytes"]
                self.say({})

            def do_POST(self) -> None:
                self.body()
                outer.held.pop(self.tenant(), None)
                self.say({})

            def do_DELETE(self) -> None:
                del outer.shares[self.tenant()]
                self.say({})

            def tenant(self) -> str:
                url = urlsplit(self.path)
                (name,) = parse_qs(url.query)["tenant_id"]
                outer.asked.append((self.command, name))
                return name

            def say(self, value: Any) -> None:
                self.answer(value, 503 if outer.away else 200)

        super().__init__(Answers)

    def row(self, name: str) -> dict[str, Any]:
        return {
            "tenant_id": name,
            "requested_quota_bytes": self.shares.get(name, 0),
            "charged_bytes": self.held.get(name, 0),
            "has_explicit_policy": name in self.shares,
        }


@pytest.fixture
def master() -> Iterator[Master]:
    made = Master({"a": 300, "default": 100}, {"a": 300, "default": 20})
    yield made
    made.server.shutdown()
    made.server.server_close()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    made = tmp_path / "tenants.json"
    write(made, {"a": 300, "default": 100})
    return made


def write(path: Path, shares: dict[str, int]) -> None:
    rows = [{"name": name, "quota": size} for name, size in shares.items()]
    path.write_text(json.dumps({"version": 1, "tenants": rows}))


def test_matching_quotas_send_no_request(master: Master, file: Path) -> None:
    quotas.Keeper(str(file), master.url).once()
    assert master.asked == []


def test_edited_quotas_reach_a_running_master(master: Master, file: Path) -> None:
    keeper = quotas.Keeper(str(file), master.url)
    write(file, {"b": 50, "default": 200})
    keeper.once()
    assert master.shares == {"b": 50, "default": 200}
    assert master.asked[-2:] == [("POST", "a"), ("DELETE", "a")], "its blocks go first"
    assert master.held == {"default": 20}


def test_draining_store_gets_room_to_move(master: Master, file: Path) -> None:
    keeper = quotas.Keeper(str(file), master.url)
    master.segments = DRAINS
    keeper.once()
    assert master.shares == {"a": 300 + 90, "default": 20 + 90}, "180 of 500 are free"
    master.held = {"a": 380, "default": 20}
    keeper.once()
    assert master.shares == {"a": 390, "default": 110}, "once for each drain"
    master.segments = STORES
    keeper.once()
    assert master.shares == {"a": 300, "default": 100}


def test_quotas_stay_when_nothing_is_free(master: Master, file: Path) -> None:
    keeper = quotas.Keeper(str(file), master.url)
    master.segments, master.held = DRAINS, {"a": 300, "default": 100, "gone": 300}
    keeper.once()
    assert master.shares == {"a": 300, "default": 100}


def test_standby_master_is_retried(
    master: Master, file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    naps: list[float] = []

    def nap(seconds: float) -> None:
        naps.append(seconds)
        if len(naps) == 3:
            raise KeyboardInterrupt

    master.away = True
    monkeypatch.setattr(quotas.time, "sleep", nap)  # type: ignore[attr-defined]
    with pytest.raises(KeyboardInterrupt):
        quotas.Keeper(str(file), master.url).forever()
    assert capsys.readouterr().out.count("asking again") == 1, "said once"


def test_master_starts_with_the_quota_file(file: Path, tmp_path: Path) -> None:
    quotas.main("copy", str(file), str(tmp_path / "kept.json"))
    assert (tmp_path / "kept.json").read_text() == file.read_text()
