"""What a container's own script installs by pip or uv before or as it starts the engine.

It lies over what the image holds. A word is looked at once: a script may be long.
"""

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

from function.api.engines import ENGINES
from function.api.packages import BROUGHT
from function.contract.packages import Fact, stated, unknown
from function.contract.versions import parse
from function.engines.registry import kind

# A version that cannot be read, and a name alone, which takes what is there or else the newest.
HIDDEN, ANY = "", "*"
NOT_SAID = "pip install, of no version that can be read"
_BY_SCRIPT = "the container's own script installs it"

_COMMANDS = re.compile(r"[;&|\n()]+")
_INSTALLER = re.compile(r"(?:.*/)?(?:pip[\d.]*|uvx?)")
_REQUIREMENT = re.compile(
    r"([A-Za-z0-9][\w.-]*)(?:\[[\w,.-]{0,64}\])?(?:([=<>!~@ ].*))?", re.DOTALL
)
_PYTHON_JOINED = re.compile(r"-p\d[\d.]*")
_WHEEL = re.compile(r"([\w.]+)-([^-]+)-[^/]*\.whl")
_SOURCE = re.compile(r"git\+.*/([\w.-]+?)(?:\.git)?(?:[@#].*)?", re.DOTALL)
_WITH = frozenset(("--with", "-w", "--from"))
_WITH_FILES = frozenset(("--with-requirements", "--with-editable"))
# What uvx does not take from the image.
_ISOLATED = frozenset((*BROUGHT, *(kind(name).distribution for name in ENGINES)))
_PYTHON = frozenset(("-p", "--python"))
# What an engine's release decides; its pip package brings them.
_PINNED = ("torch", "cuda")
_UPGRADES = frozenset(("-U", "--upgrade", "--pre", "--force-reinstall", "--reinstall"))


def of(container: Mapping[str, Any]) -> dict[str, str]:
    """{name on PyPI: the version, HIDDEN or ANY} of what the container's command installs."""
    found: dict[str, str] = {}
    lists = [words for key in ("command", "args") if isinstance(words := container.get(key), list)]
    argv = [word for words in lists for word in words if isinstance(word, str)]
    if not any(tool in word for word in argv for tool in ("pip", "uv")):
        return found
    texts = (c for text in argv for c in _COMMANDS.split(text.replace("\\\n", " ")))
    for command in (argv, *map(_words, texts)):
        for name, version in _installed(command):
            known = found.setdefault(name, version)
            found[name] = version if known in (version, ANY) else HIDDEN
    return found


def packages(
    container: Mapping[str, Any], held: Mapping[str, Fact], release: str | None = None
) -> dict[str, Fact]:
    """Return the packages that the script changes. `held`: what the image has.

    `release`: the engine's in the image. Another one brings the torch and the CUDA that it pins.
    """
    found = {}
    installed = of(container)
    for name, version in installed.items():
        package = BROUGHT.get(name)
        fact = held.get(package or "")
        if package is None or (version == ANY and fact is not None and fact.versions):
            continue
        readable = version not in (HIDDEN, ANY)
        found[package] = stated(_BY_SCRIPT, version) if readable else unknown(_BY_SCRIPT)
    engines = (installed.get(kind(name).distribution, ANY) for name in ENGINES)
    if any(version not in (ANY, release) for version in engines):
        found = dict.fromkeys(_PINNED, unknown(_BY_SCRIPT)) | found
    return found


def _installed(words: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield (name, version) of what one command installs."""
    words = [word.strip("'\"") for word in words]
    tool = next((i for i, word in enumerate(words) if _INSTALLER.fullmatch(word)), len(words))
    verbs = (i for i, word in enumerate(words) if i > tool and word in ("install", "add"))
    after = words[next(verbs, len(words)) + 1 :]
    unread = False
    for option, value in pairwise([*words[tool:], ""]):  # uv run --with, uvx --from
        name, _, same = option.partition("=")
        is_uv = "uv" in words[tool]
        if is_uv and (name in _PYTHON or _PYTHON_JOINED.fullmatch(option)):
            asked = same or (value if name in _PYTHON else option[2:])
            yield "python", asked if parse(asked) else HIDDEN
        if option.startswith("-w") and option != "-w":
            name, same = "-w", option[2:]
        with_ = (same or value).split(",") if name in _WITH else []
        unread = unread or name in _WITH_FILES or any("$" in word for word in with_)
        after += with_
    is_uvx = bool(words[tool + 1 :]) and words[tool].endswith("uvx")
    if is_uvx or unread:
        given = {_name(m[1]) for word in after if (m := _REQUIREMENT.fullmatch(word))}
        yield from ((name, HIDDEN) for name in sorted(_ISOLATED - given))
    upgrades = is_uvx or bool(_UPGRADES & set(after))
    for word in after:
        if wheel := _WHEEL.fullmatch(word.rpartition("/")[2]):
            yield _name(wheel[1]), wheel[2] if parse(wheel[2]) else HIDDEN
        elif source := _SOURCE.fullmatch(word):
            yield _name(source[1]), HIDDEN
        elif required := _REQUIREMENT.fullmatch(word):
            rest = (required[2] or "").strip()
            if not rest:
                yield _name(required[1]), HIDDEN if upgrades else ANY
            else:
                exact = rest.removeprefix("==").strip()
                known = rest.startswith("==") and parse(exact)
                yield _name(required[1]), exact if known else HIDDEN


def _words(command: str) -> list[str]:
    """Return the words of one command of a script; with quotes that do not close, its parts."""
    try:
        return shlex.split(command) if "'" in command or '"' in command else command.split()
    except ValueError:
        return command.split()


def _name(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
