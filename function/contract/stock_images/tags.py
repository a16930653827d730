"""What an image's tag says by itself: a version, a CUDA, an accelerator, or that it moves."""

import re
from dataclasses import dataclass

from function.api.engines import ENGINES
from function.contract.accelerators.kinds import Hint
from function.contract.versions import parse
from function.facts import Table

_PRERELEASE = r"(?:\.?(?:post|rc|dev)\d+)?"
# vLLM released 0.9.0.1.
_VERSION = re.compile(rf"v?(\d+\.\d+\.\d+(?:\.\d+)?{_PRERELEASE})(?:[-_+](.+))?")
_RELEASE = re.compile(rf"v?(\d+(?:\.\d+){{1,2}}{_PRERELEASE})(?:[-_+](.+))?")
# AMD writes the engine's version into the middle of its tags: rocm6.2_..._vllm_0.6.4.
_NAMES = "|".join(re.escape(name.lower()) for name in ENGINES)
_INSIDE = re.compile(rf"(?:^|[_-])(?:{_NAMES})[_-]v?(\d+\.\d+(?:\.\d+)?)(?=$|[_-])")
_DATE = re.compile(r"20\d\d-\d\d-\d\d(?:$|-)")
_CUDA = re.compile(r"cu(\d{2})(\d)?")
_PYTHON = re.compile(r"py(3)(\d\d)")
_WORDS = re.compile(r"[-_+]")

_MOVES = frozenset(("latest", "nightly", "dev", "main", "stable", "edge", "rolling"))
# Words that change nothing of what is inside.
_SAME = re.compile(r"x86|64|amd64|arm64|aarch64|ubuntu(\d{4})?|runtime|py3|py312")
_ACCELERATORS = Table(Hint, "accelerators", "tag_words")


@dataclass(frozen=True)
class Tag:
    """What a tag says.

    `release`: the number that the tag begins with, as written; `version`: the same by PEP 440;
    `inside`: a version named after the engine's name. "" and None where there is none.

    `cuda`, `python`: as the tag names them ("12.9"). `accelerator`: likewise. `variant`: words that
    are none of these: what is inside may differ from the plain tag's. `moves`: the tag names
    another image tomorrow. `dated`: it begins with a date ("2025-05-05-v1").
    """

    release: str = ""
    version: str | None = None
    inside: str | None = None
    cuda: str = ""
    python: str = ""
    accelerator: str = ""
    variant: frozenset[str] = frozenset()
    moves: bool = False
    dated: bool = False


def read(tag: str, whole_version: bool) -> Tag:
    """`whole_version`: a version has three numbers; `26.10` is a release, and no version."""
    words = _WORDS.split(tag) if tag else ["latest"]
    accelerator = next(filter(None, map(_accelerator, words)), "")
    found = _INSIDE.search(tag)
    inside = _parsed(found[1]) if found else None
    match = (_VERSION if whole_version else _RELEASE).fullmatch(tag)
    version = _parsed(match[1]) if match else None
    if not match or not version:
        moves = not inside and not _MOVES.isdisjoint(words)
        dated = bool(_DATE.match(tag))
        return Tag(inside=inside, accelerator=accelerator, moves=moves, dated=dated)
    named, python, variant = "", "", set()
    for word in _WORDS.split(match[2] or ""):
        if found_python := _PYTHON.fullmatch(word):
            python = ".".join(found_python.groups())
        if found_cuda := cuda(word):
            named = found_cuda
        elif word and not _SAME.fullmatch(word) and not _accelerator(word):
            variant.add(word)
    return Tag(match[1], version, inside, named, python, accelerator, frozenset(variant))


def cuda(word: str) -> str:
    """`cu129` is CUDA "12.9"; "" for any other word."""
    named = _CUDA.fullmatch(word)
    return f"{named[1]}.{named[2] or ('0' if named[1] == '13' else '9')}" if named else ""


def _accelerator(word: str) -> str:
    return next((h.accelerator for h in _ACCELERATORS if h.pattern.fullmatch(word)), "")


def _parsed(text: str) -> str | None:
    found = parse(text)
    return str(found) if found else None
