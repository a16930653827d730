"""Draft rows of function/facts/advisories.yaml from upstream threads, for a person to judge.

    gh issue list -R OWNER/REPOSITORY -S "kv connector" --json number,title,body,createdAt,url \\
        | python -m kv_offload.docs.drafts

Reads what `gh issue list`, `gh pr list` or the API of GitHub print; threads that the ledger names
already, and those that name no connector or no fault, are left out.
"""

import json
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import yaml

from function.api.engines import ENGINES
from function.contract.advisories import ADVISORIES, Effect

# The first that is found decides; the words are those of reports.
_EFFECTS = {
    Effect.WRONG_OUTPUT: "garbled gibberish corrupt incorrect mismatch nonsense wrong",
    Effect.HANG: "hang hangs stuck deadlock freeze frozen",
    Effect.LEAK: "leak leaks leaked",
    Effect.CRASH: "crash crashes segfault assert assertion exception traceback killed",
    Effect.SILENT_MISS: "miss misses never ignored dropped silently",
}
_CONNECTORS = sorted({name.partition("/")[0] for each in ADVISORIES for name in each.connectors})
_ENDINGS = ("V1", "Connector", "Store", "MP")
_RELEASE = re.compile(r"\bv?(0\.\d{1,3}\.\d{1,3})\b")
_THREAD = re.compile(r"github\.com/[^/\s]{1,100}/([^/\s]{1,100})/(issues|pull)/(\d{1,9})")
_LONGEST = 64 * 1024  # characters of a thread that are read


def drafts(threads: Iterable[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield a row for each thread that names a connector and a fault, in the threads' order."""
    named = {reference for advisory in ADVISORIES for reference in advisory.references}
    for thread in threads:
        reference = _reference(thread)
        text = f"{thread.get('title')}\n{thread.get('body')}"[:_LONGEST]
        connectors, effect = _connectors(text), _effect(text)
        if reference and reference not in named and connectors and effect:
            yield {
                "id": "KVO-",
                "summary": str(thread.get("title", "")).rstrip("."),
                "engine": next((e for e in ENGINES if e.lower() in reference), ""),
                "connectors": connectors,
                "seen with": sorted(set(_RELEASE.findall(text))),
                "effect": effect.value,
                "evidence": "reported",
                "action": "caution",
                "fixed": "open",
                "published": str(thread.get("createdAt") or thread.get("created_at") or "")[:10],
                "references": [reference],
            }


def _reference(thread: Mapping[str, Any]) -> str:
    """Return a thread as the ledger names it ("vllm 12345", "vllm PR 12345"), "" for no thread."""
    found = _THREAD.search(str(thread.get("html_url") or thread.get("url") or ""))
    if not found:
        return ""
    repository, kind, number = found.groups()
    return f"{repository} {'PR ' if kind == 'pull' else ''}{number}"


def _connectors(text: str) -> list[str]:
    words = set(re.findall(r"[a-z]{1,40}", text.lower()))
    by_name = [name for name in _CONNECTORS if name.lower() in words]
    return by_name or [name for name in _CONNECTORS if _stem(name) in words]


def _stem(connector: str) -> str:
    """Return a connector's name as people say it."""
    for ending in _ENDINGS:
        connector = connector.removesuffix(ending)
    return connector.lower()


def _effect(text: str) -> Effect | None:
    words = set(re.findall(r"[a-z]{1,40}", text.lower()))
    return next((effect for effect, told in _EFFECTS.items() if words & set(told.split())), None)


def main() -> None:
    """Write the drafts of the threads on the standard input."""
    found = list(drafts(json.load(sys.stdin)))
    sys.stdout.write(yaml.safe_dump(found, sort_keys=False, width=120) if found else "")


if __name__ == "__main__":
    main()
