"""Errors that a controller or a bug reports, without what differs from one try to the next.

A status that quotes one as it is changes with every try, and wakes everything that watches it.
"""

import re

# Characters that are searched: a quotation is much shorter.
_SEARCHED = 8192
# A host name and its port are no `address`: they do not differ.
_DIFFERS = re.compile(
    r"""(?ix)
    (?P<time>
        (?<!\d) \d{4} [-/] \d\d [-/] \d\d [t ] \d\d:\d\d:\d\d (?: [.,]\d{1,9} )?
        (?: [ ]? (?: z\b | [+-]\d\d:?\d\d ) )? (?: [ ] utc\b )? (?: [ ] m=[+-][\d.]{1,32} )?
    )
    | (?P<address>
        (?: (?<![\w.]) \d{1,3}(?:\.\d{1,3}){3} | \[ [0-9a-f:.]{2,45} (?: %\w{1,16} )? \] )
        :\d{1,5}
    )
    | (?P<label> \brequest[ _-]?id ["']? [:=] [ ]? ["']? | \bstream[ ]id[ ](?=\d) )
      [\w+/=-]{1,128}
    | (?P<pointer> \b0x[0-9a-f]{8,16}\b )
    | (?P<id> (?<![0-9a-f]) [0-9a-f]{8} (?: -[0-9a-f]{4} ){3} -[0-9a-f]{12} (?![0-9a-f]) )
    """
)


def without_differences(text: str) -> str:
    """Return an error with a word for each time, address with a port, pointer and request's id."""
    return _DIFFERS.sub(_word, text[:_SEARCHED])


def _word(found: re.Match[str]) -> str:
    label = found["label"]
    return f"{label}(id)" if label else f"({found.lastgroup})"
