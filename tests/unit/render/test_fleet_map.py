"""The map of a fleet is one page that nothing from a cluster can change."""

from datetime import UTC, datetime
from html.parser import HTMLParser

import pytest

from kv_offload.render import fleet_map, status
from tests.unit.render.test_status import HELD, STARTING, WELL, Document, replica, said, tier

AT = datetime(2026, 11, 24, 6, 0, tzinfo=UTC)
TAGS = {
    *("html", "meta", "title", "style", "main", "header", "section", "details", "summary"),
    *("h1", "h2", "p", "ul", "li", "b", "i", "br", "code", "small", "span"),
}
ATTRIBUTES = {"lang", "charset", "name", "content", "class", "title", "aria-hidden"}


class Page(HTMLParser):
    """What a browser makes of a page: tags, attributes, cells, words."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.cells: list[tuple[str, str]] = []
        self.words = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        found = dict(attrs)
        self.attributes |= set(found)
        if tag == "li" and "title" in found:
            self.cells.append((found["class"] or "", found["title"] or ""))

    def handle_data(self, data: str) -> None:
        self.words += data


def page(*documents: Document) -> tuple[str, Page]:
    text = fleet_map.page(status.status(documents), AT)
    return text, Page(text)


HOSTILE = "\"><script>alert(1)</script>\x1b[2J</style><img src=http://x onerror=y>'"


@pytest.mark.parametrize("field", ["name", "cluster", "fleet", "message", "reason", "hits"])
def test_hostile_text_stays_text(field: str) -> None:
    texts = dict.fromkeys(("name", "cluster", "message", "reason", "hits"), "x") | {"fleet": ""}
    texts[field] = HOSTILE
    wrong = said("Accepted", "False", texts["reason"], texts["message"])
    documents = (
        tier(
            texts["name"],
            wrong,
            fleet=texts["fleet"],
            cluster=texts["cluster"],
            serving={"hits": texts["hits"]},
        ),
        replica(texts["name"], said("KVOffloadReady", "False", texts["reason"], texts["message"])),
    )
    text, found = page(*documents)
    assert found.tags <= TAGS and found.attributes <= ATTRIBUTES
    assert "\x1b" not in text and "alert(1)" in text


def test_page_needs_nothing_from_elsewhere() -> None:
    text, found = page(tier("chat"))
    assert found.tags <= TAGS
    assert not any(
        word in text for word in ("http:", "https:", "url(", "@import", "<script", "<link")
    )
    assert "prefers-color-scheme: dark" in text


def test_every_cluster_of_a_fleet_is_one_cell() -> None:
    unseen = [said("ControlPlaneReady", "Unknown", "NotObserved", "Not reached.")]
    rolls = {"remaining": "2+"}
    children = [
        tier(
            f"chat-{i:04}",
            *([STARTING] if i < 20 else unseen if i < 25 else WELL),
            fleet="chat",
            cluster=f"c{i:04}",
            **({"wiring": rolls} if i == 30 else {}),
        )
        for i in range(1000)
    ]
    text, found = page(tier("chat", cluster="975/1000 clusters"), *children, tier("alone"))
    kinds = [kind for kind, _ in found.cells]
    counts = {kind: kinds.count(kind) for kind in ("Problem", "Unknown", "Moving", "Ready")}
    assert counts == {"Problem": 20, "Unknown": 5, "Moving": 1, "Ready": 975}
    assert found.cells[0][1].startswith("kv/chat-0000 on c0000. Problem. agents 3/3. AgentsReady")
    assert "25 of 1,000 not ready" in found.words and "1,001 tiers on clusters" in found.words
    assert len(text) < 400_000


def test_workloads_are_listed_by_reason() -> None:
    wired = replica("a", said("KVOffloadReady", reason="Wired"))
    _, found = page(tier("chat"), wired, replica("qwen", HELD))
    assert "What is wrong with tiers" not in found.words
    assert found.words.index("TierNotFound") < found.words.index("Wired 1 workload")
    assert "ModelReplica team-a/qwen" in found.words and "Create the tier" in found.words
