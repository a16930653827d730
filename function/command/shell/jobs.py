"""Whether a script runs several engines at once: background jobs, in loops and functions too.

A job that the script waits for ends before the next one starts. Branches of one `if` or `case`
exclude each other.
"""

import re
from collections.abc import Iterator, Sequence
from itertools import combinations, islice

from function.command.budget import Budget
from function.command.runners import basename
from function.command.shell.commands import Command
from function.command.shell.grammar import LOOPS, Node
from function.command.shell.script import Script

# A command, and all that is around it, from the inside out. Behind the body of a function comes
# what calls it; behind a script comes the command that starts it.
Chain = tuple[tuple[Script, Node], ...]

# Programs that go on without what they start, and their options for it (any without one).
_DETACHES = {"coproc": (), "setsid": ("-f", "--fork"), "sudo": ("-b", "--background")}
# Programs that start one command many times at once.
_MULTIPLIES = {"xargs": ("-P", "--max-procs"), "parallel": ()}
_OWN_SHELL = frozenset({"subshell", "command_substitution", "process_substitution", "pipeline"})
_LEADING = frozenset({"list", "redirected_statement", "negated_command"})
_BRANCHES = frozenset({"elif_clause", "else_clause"})
_LAST_JOB = re.compile(r'"?\$(!|\{!\})"?\Z')
_VARIABLE = re.compile(r'"?\$\{?(\w+)\}?"?\Z')
# Commands of all scripts by their names.
Calls = dict[str, list[tuple[Script, Node]]]
# Starts that are compared with each other, and functions in functions that lead to one.
_MOST = 16


class _TooDeep(Exception):
    """Raised where more functions lead to a start than are followed."""


def at_once(engines: Sequence[Command], scripts: Sequence[Script], budget: Budget) -> str:
    """Return how several of the `engines` come to run at the same time, "" where they do not."""
    starts: list[Chain] = []
    if not any(_has_jobs(script) for script in scripts):
        return ""
    calls: Calls = {}
    for script in scripts:
        for command in script.commands:
            calls.setdefault(script.name(command), []).append((script, command))
    try:
        for engine in engines:
            for chain in islice(_chains(engine.script, engine.node, calls, frozenset()), _MOST):
                budget.step(len(chain))
                if why := _many(chain):
                    return f"{why} ({_line(chain)})"
                starts.append(chain)
                if len(starts) > _MOST:
                    return f"in the background (more than {_MOST} places start one)"
    except _TooDeep:
        return f"in the background (more than {_MOST} functions lead to one)"
    for one, other in combinations(starts, 2):
        budget.step(len(one) + len(other))
        if _overlap(one, other):
            lines = dict.fromkeys((_line(one), _line(other)))
            return f"in the background ({', '.join(lines)})"
    return ""


def _has_jobs(script: Script) -> bool:
    programs = (*_DETACHES, *_MULTIPLIES)
    return any(name.encode() in script.text.data for name in programs) or any(
        node.type == "&" for node in script.tree.nodes
    )


def _line(chain: Chain) -> str:
    script, node = chain[0]
    return f"line {script.line(node.start)}"


def _chains(script: Script, node: Node, calls: Calls, inside: frozenset[str]) -> Iterator[Chain]:
    """Yield one chain for each way to a command. `inside`: functions that it is in already.

    Raise _TooDeep for more than _MOST of them.
    """
    chain: list[tuple[Script, Node]] = []
    at: Node | None = node
    while at is not None:
        chain.append((script, at))
        name = _function(script, at)
        if name and name not in inside:
            if len(inside) == _MOST:
                raise _TooDeep
            body = range(at.index, at.last + 1)
            sites = [
                (caller, site)
                for caller, site in calls.get(name, ())
                if not (caller is script and site.index in body)
            ]
            for caller, site in sites:
                for rest in _chains(caller, site, calls, inside | {name}):
                    yield (*chain, *rest)
            if sites:
                return
        if at.parent is not None:
            at = at.parent
        else:
            script, at = script.holder.script or script, script.holder.at
    yield tuple(chain)


def _function(script: Script, node: Node) -> str:
    name = node.child("name") if node.type == "function_definition" else None
    return script.slice(name) if name is not None else ""


def _many(chain: Chain) -> str:
    """Return how one command starts several engines at once, "" where it does not."""
    for at, (script, node) in enumerate(chain):
        if _has_option(script, node, _MULTIPLIES):
            return "by xargs or parallel"
        if node.type in LOOPS and any(_left(chain[:at], job, chain[:at]) for job in range(at)):
            return "in the background of a loop"
    return ""


def _overlap(one: Chain, other: Chain) -> bool:
    """Return whether two starts may run at the same time."""
    shared = 0
    while one[-1 - shared][1] is other[-1 - shared][1]:
        shared += 1
        if shared == min(len(one), len(other)):
            return True  # one of them is started by the other
    around = one[-shared][1] if shared else None
    first, then = sorted((one[: len(one) - shared], other[: len(other) - shared]), key=_begin)
    if around is not None and _exclude(around, first[-1][1], then[-1][1]):
        return False
    return any(_left(first, job, then) for job in range(len(first)))


def _begin(chain: Chain) -> int:
    return chain[-1][1].start


def _exclude(around: Node, first: Node, then: Node) -> bool:
    """Return whether only one of two parts of `around` runs."""
    if around.type == "if_statement" and "condition" not in (first.field, then.field):
        return any(node.type in _BRANCHES for node in (first, then))
    return around.type == "case_statement" and not any(
        child.type in (";&", ";;&") for child in first.children
    )


def _left(chain: Chain, job: int, then: Chain) -> bool:
    """Return whether chain[job] goes on in the background of all that is around it.

    `then`: the next start, which must come behind the wait. Where both are in one list, such as a
    loop's, the wait may be for the last run.
    """
    script, node = chain[job]
    if not (_is_background(node) or _has_option(script, node, _DETACHES)):
        return False
    names = _names_of_job(script, node)
    for at in range(job, len(chain)):
        script, node = chain[at]
        if at > job and (node.type in _OWN_SHELL or _starts_shell(chain, at)):
            return True
        again = any(node is each for _, each in then)
        until = None if again or at < len(chain) - 1 else _begin(then)
        if node.type != "function_definition" and _waits(
            script, node, names, last=at == job, until=until, again=again
        ):
            return False
    return True


def _starts_shell(chain: Chain, at: int) -> bool:
    """Return whether chain[at] is the command of a new shell: its jobs are not waited for here."""
    (_, inner), (script, node) = chain[at - 1], chain[at]
    return inner.parent is None and script.name(node) != "eval"


def _siblings(node: Node) -> list[Node]:
    return node.parent.children if node.parent is not None else [node]


def _behind(node: Node) -> list[Node]:
    siblings = _siblings(node)
    return siblings[next(i for i, each in enumerate(siblings) if each is node) + 1 :]


def _is_background(node: Node) -> bool:
    return [each.type for each in _behind(node)[:1]] == ["&"]


def _names_of_job(script: Script, node: Node) -> frozenset[str]:
    """Return the variables that hold the number of a background job."""
    found = set()
    for each in _behind(node)[1:]:
        if each.type == "&":
            break
        for part in (each, *each.children):
            name, value = part.child("name"), part.child("value")
            if name is not None and value is not None and _LAST_JOB.match(script.slice(value)):
                found.add(script.slice(name))
    return frozenset(found)


def _waits(
    script: Script, node: Node, names: frozenset[str], last: bool, until: int | None, again: bool
) -> bool:
    """Return whether a statement of the same list as `node` surely waits for its job.

    `last`: `$!` is the job behind it. `again`: the statement may stand before it.
    """
    behind = _behind(node)
    next_job = next((each.start for each in behind[1:] if each.type == "&"), None)
    for each in _siblings(node) if again else behind:
        if until is not None and each.start >= until:
            break
        lead = each
        while lead.type in _LEADING and lead.children:
            lead = lead.children[0]
        if lead.type != "command" or script.name(lead) != "wait" or _is_background(each):
            continue
        newest = last and each.start > node.start
        newest = newest and (next_job is None or each.start < next_job)
        if all(_is_job(script.slice(w), names, newest) for w in lead.all("argument")):
            return True
    return False


def _is_job(word: str, names: frozenset[str], newest: bool) -> bool:
    if _LAST_JOB.match(word):
        return newest
    found = _VARIABLE.match(word)
    return found is not None and found[1] in names


def _has_option(script: Script, node: Node, programs: dict[str, tuple[str, ...]]) -> bool:
    """Return whether a command is one of `programs`, with an option that counts."""
    if node.type != "command":
        return False
    words = [script.name(node), *map(script.slice, node.all("argument"))]
    for at, word in enumerate(words):
        options = programs.get(basename(word))
        if options is not None:
            return not options or any(w.startswith(options) for w in words[at + 1 :])
    return False
