"""Remove credentials from conditions, results and logs, which are not secret.

A pod's author may have written one into argv or env; a message about that pod must not carry it on
into the status of a composite, which far more people can read.
"""

import re
from collections.abc import Mapping

HIDDEN = "(hidden)"

# Names of settings that hold a credential, as they stand in flags, JSON keys and variables.
_NAMES = (
    r"pass(?:word|wd|phrase)|secret(?:[-_]?(?:access[-_]?)?key)?|(?:api|access|account|private|auth)"
    r"[-_]?key|token|credentials?|connection[-_]?string|sas|bearer"
)
# What stands in front of such a name (`AWS_`, `kv.`) is not matched: it is kept anyway, and a chain
# of a-a-a-... would be read from each of its links to its end.
_NAMED = re.compile(
    rf"""(?ix)
    (?P<name> (?<![a-z0-9]) (?:{_NAMES}) (?![a-z0-9_-]) ["']? )
    (?P<between> \s*[:=]\s*["']? | \s+is\s+["']? | \s+["']? (?=\S{{8}}) | ["']?,\s*["'] )
    (?P<value> [^\s"',}}\]]{{4,}} )
    """
)
# Values that are credentials wherever they stand.
_VALUES = re.compile(
    r"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b"  # AWS
    r"|\bhf_[A-Za-z0-9]{20,}\b"  # Hugging Face
    r"|\b(?:sk|pk|rk)-[A-Za-z0-9_-]{20,}"  # OpenAI and its like
    r"|\bgh[pousr]_[A-Za-z0-9]{20,}\b"  # GitHub
    r"|\bnvapi-[A-Za-z0-9_-]{20,}"  # NVIDIA
    # A JSON Web Token. What follows its head is optional: all that is read is then taken, where
    # eyJ-eyJ-... would be read from each of its links to its end, in search of a dot.
    r"|\beyJ[A-Za-z0-9_-]{10,}(?:\.[A-Za-z0-9_-]+)*"
    r"|(?<=://)[^\s/@]+(?=@)"  # user:password in a URL
    # user:password@ of an image reference; a tag before a digest is none. The length is bounded:
    # the rest of a chain of colons would be read from each of them.
    r"|(?<=[\w.+-]):[^\s/@\"']{1,128}+(?=@(?!sha\d+:)[\w.-])"
)


def redacted(text: str) -> str:
    """Return the text with everything that looks like a credential hidden."""
    text = _VALUES.sub(HIDDEN, text)
    return _NAMED.sub(lambda m: f"{m['name']}{m['between']}{HIDDEN}", text)


def is_credential(name: str) -> bool:
    """Return whether a key is named like one that holds a credential."""
    return _KEY.fullmatch(name) is not None


def find_credential(value: object, path: str) -> str:
    """Return the path of the first key that holds a credential, "" where none does."""
    if isinstance(value, Mapping):
        inner = [(f"{path}.{key}", str(key), item) for key, item in sorted(value.items())]
    elif isinstance(value, list | tuple):
        inner = [(f"{path}[{index}]", "", item) for index, item in enumerate(value)]
    else:
        return ""
    for below, key, item in inner:
        found = below if item and _KEY.fullmatch(key) else find_credential(item, below)
        if found:
            return found
    return ""


_KEY = re.compile(rf"(?i)(?:[a-z0-9]+[-_.])*(?:{_NAMES})")
