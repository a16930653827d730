"""The programs that run inside other pods, with the Python of those pods' images.

function/ embeds their text in ConfigMaps, commands and records, and imports none of them. Every
change of a text rolls the pods that run it.
"""

import re
from functools import cache
from importlib.resources import files
from posixpath import dirname, join, normpath

_IMPORT = re.compile(r"^(?:import|from) [^.].*\n", re.MULTILINE)
_OURS = re.compile(r"^from \.(\.*)(\S+) import ", re.MULTILINE)
_BLOCK = re.compile(r"\n(?:from \.[^(\n]*(?:\([^)]*\))?\n)+")


@cache
def text(path: str) -> str:
    """Return the text of one program, such as "lmcache/wait.py"."""
    return files(__package__).joinpath(path).read_text(encoding="utf-8")


@cache
def texts(folder: str) -> dict[str, str]:
    """Return the text of each file of a program that is a package: name of the file -> text."""
    names = (file.name for file in files(__package__).joinpath(folder).iterdir())
    return {name: text(f"{folder}/{name}") for name in sorted(names) if name.endswith(".py")}


@cache
def module(path: str) -> str:
    """Return one program's text, with those of our files that it imports behind it."""
    paths, imported = [path], set[str]()
    for path in paths:
        for up, name in _OURS.findall(text(path)):
            file = normpath(join(dirname(path), "../" * len(up), name.replace(".", "/") + ".py"))
            paths += [file] * (file not in paths)

    def once(line: re.Match[str]) -> str:
        known = line[0] in imported
        imported.add(line[0])
        return "" if known else line[0]

    return "\n\n".join(_IMPORT.sub(once, _BLOCK.sub("", text(path))).lstrip() for path in paths)
