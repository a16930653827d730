"""The programs that run inside other pods, with the Python of those pods' images.

function/ embeds their text in ConfigMaps, commands and records, and imports none of them. Every
change of a text rolls the pods that run it.
"""

from functools import cache
from importlib.resources import files


@cache
def text(path: str) -> str:
    """Return the text of one program, such as "lmcache/wait.py"."""
    return files(__package__).joinpath(path).read_text(encoding="utf-8")


@cache
def texts(folder: str) -> dict[str, str]:
    """Return the text of each file of a program that is a package: name of the file -> text."""
    names = (file.name for file in files(__package__).joinpath(folder).iterdir())
    return {name: text(f"{folder}/{name}") for name in sorted(names) if name.endswith(".py")}
