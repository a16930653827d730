"""A script that a container starts by its path, as the same command with the script's text."""

from collections.abc import Callable, Mapping
from typing import Any

from function.command import exec_form, kubernetes, programs, runners
from function.command.model import Word

# With -c a shell runs its argument, with -s its input, with -n nothing.
_NO_FILE = frozenset("csn")


def inlined(container: Mapping[str, Any], text_at: Callable[[str], str]) -> list[str] | None:
    """Return command and args with the start script behind `-c`; None where none can be read.

    `text_at` returns the text of a file in the container; it raises ValueError if unreadable.
    """
    lists = [container.get("command"), container.get("args") or []]
    argv = [word for words in lists if isinstance(words, list) for word in words]
    if not lists[0] or not all(isinstance(word, str) for word in argv):
        return None
    at = exec_form.program_at([Word(None if "$(" in raw else raw, raw) for raw in argv])
    shell = argv[at : at + 1]
    path = at
    if runners.basename("".join(shell)) in programs.SHELLS:
        path = next((i for i in range(at + 1, len(argv)) if argv[i][:1] not in "-+"), len(argv))
    options = argv[at + 1 : path]
    if path >= len(argv) or any(_NO_FILE & set(option.partition("--")[0]) for option in options):
        return None
    if path == at and "/" not in argv[at]:  # found in PATH
        return None
    try:
        text = text_at(argv[path])
    except ValueError:
        return None
    if path == at:
        shell = text.partition("\n")[0].removeprefix("#!").split() if text[:2] == "#!" else ["sh"]
        shell = shell[runners.basename("".join(shell[:1])) == "env" :]
        if runners.basename("".join(shell[:1])) not in programs.SHELLS:
            return None
    return [*argv[:at], *shell, *options, "-c", kubernetes.escape(text), *argv[path:]]
