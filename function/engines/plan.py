"""From what must be set to the edits of words, and to the words of the opt-in variable."""

import json
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from function.command.model import (
    OPT_IN,
    Append,
    Delete,
    Edit,
    EngineCall,
    Replace,
    values_wanted,
)
from function.contract.engine import Engine
from function.engines import json_text
from function.engines.scan import Options, Scan, Use
from function.problems import Refused
from function.reasons import Reason
from function.redact import find_credential

_TROUBLE = re.compile(r"[\s*?\\]")

# How the text of an `eval` is read where something stands in it that has no name ("$@").
_NAMELESS = "${_}"
_PLAIN = re.compile(r"\$\{?(\w+)\}?")
# Variables that templates offer to users and that no image sets (KServe's LLMInferenceService).
_USERS_ONLY = frozenset({"VLLM_ADDITIONAL_ARGS"})


@dataclass(frozen=True)
class Set:
    """`name` must end up with `value` (None: a switch), in place of the `uses` there are."""

    name: str
    value: str | None
    uses: tuple[Use, ...] = ()


@dataclass(frozen=True)
class FlagPlan:
    """What has to be set on one engine call; nothing when the call already says it all.

    `notes`: what a person should know of the result, though nothing stands in its way.
    """

    call: EngineCall
    sets: tuple[Set, ...] = ()
    notes: tuple[str, ...] = ()

    def edits(self) -> list[Edit]:
        """Return the edits of the call's words that carry out the plan. Raise Refused.

        A call that opted in gets replacements and deletions only: what is new goes by env.
        """
        call, out = self.call, []
        for item in self.sets:
            out += _edits(call, item)
        out.sort(key=lambda edit: edit.index)
        added = [] if call.opted_in else self.new_words()
        if (out or added) and call.closed:
            raise Refused(Reason.ARGS_NOT_PATCHABLE, f"{call.closed}; {self._by_hand()}")
        return [*out, *(Append(word, expand=_expands(word)) for word in added)]

    def new_words(self) -> list[str]:
        """Return the words that the plan adds to the call, in order."""
        return [
            word
            for item in self.sets
            if _kept(self.call, item) is None
            for word in (item.name, item.value)
            if word is not None
        ]

    def opt_in(self) -> str:
        """Return what `edits` would append, as the value of the variable KV_OFFLOAD_ARGS.

        "" where nothing has to be appended. Unquoted in a script, it is split at white space and
        not parsed again (JSON escapes white space, `*` and `?`); in the text of an `eval` it is
        parsed as a script's text is, so the words are quoted.
        """
        words = self.new_words()
        return shlex.join(words) if self.call.evaluated else " ".join(map(unquoted, words))

    def _by_hand(self) -> str:
        words = " ".join(
            item.name if item.value is None else f"{item.name} '{item.value}'" for item in self.sets
        )
        opt_in = f"put ${OPT_IN} (unquoted) there, or " if self.call.scripted else ""
        if OPT_IN in self.call.closed:
            opt_in = "or "
        return f"{opt_in}add by hand: {words}"


def _edits(call: EngineCall, item: Set) -> list[Replace | Delete]:
    """Return the edits of the words that set one flag today."""
    out: list[Replace | Delete] = []
    kept = _kept(call, item)
    for use in item.uses:
        if use.path and not use.words:
            raise Refused(
                Reason.ARGS_NOT_PATCHABLE,
                f"{use.spelling.lstrip('-')}.{use.path} in the file of --config beats whatever the "
                "args say; write it there as one object, under its own name",
            )
        if use is not kept:
            out += [Delete(index) for index in _editable(call, use)]
    if kept is None:
        return out
    _editable(call, kept)
    if len(kept.words) == 1:
        return [*out, _replace(kept.words[0], f"{item.name}={item.value}")]
    if call.words[kept.words[0]].value != item.name:
        out.append(Replace(kept.words[0], item.name))
    return [*out, _replace(kept.words[1], str(item.value))]


def _kept(call: EngineCall, item: Set) -> Use | None:
    """Return the use that gets the new value: the last one that can be replaced."""
    for use in reversed(item.uses):
        if use.path or not use.static or use.raw is None or not use.words:
            continue
        if not any(call.words[index].origin for index in use.words):
            return use
    return None


def _editable(call: EngineCall, use: Use) -> tuple[int, ...]:
    for index in use.words:
        word = call.words[index]
        if word.origin and not word.origin.startswith("$("):
            raise Refused(
                Reason.ARGS_NOT_PATCHABLE,
                f"{use.name} comes from {word.origin}; move it into the args, where it can be "
                "merged with the tier's",
            )
    return use.words


def _replace(index: int, value: str) -> Replace:
    return Replace(index, value, expand=_expands(value))


def _expands(value: str) -> bool:
    # Values here are as Kubernetes is given them; see vllm.setting.
    return "$(" in value or "$$" in value


def unquoted(value: str) -> str:
    """`value` so that a shell's unquoted expansion of it is one word and matches no file name.

    JSON has escapes for white space, `*` and `?`: they stand inside strings, as it is compact.
    A list's own `[` stays: as a pattern it could only match a file named like the whole value.
    """
    if value and not _TROUBLE.search(value):
        return value
    try:
        parsed = json_text.loads(value)
    except ValueError:
        parsed = None
    if isinstance(parsed, dict | list):
        text = json.dumps(parsed, separators=(",", ":"), sort_keys=True)
        text = re.sub(r"[\s*?]", lambda m: f"\\u{ord(m.group(0)):04x}", text)
        if json.loads(text) == parsed:
            return text
    raise Refused(
        Reason.ARGS_NOT_PATCHABLE,
        f"{value!r} would not survive ${OPT_IN} unquoted; add the flag to the script by hand",
    )


def flag_sets(flags: Mapping[str, str | None], scanned: Scan) -> list[Set]:
    """Return the tier's flags that are missing. Raise Refused where the user's value differs."""
    out = []
    for name, value in sorted(flags.items()):
        negated = f"--no-{name[2:]}"
        use = scanned.last(name, negated)
        if use is None:
            out.append(Set(name, value))
        elif use.name == negated:
            raise _differs(negated, None, name, value)
        elif not (use.static and _equal(use.raw, value)):
            raise _differs(name, use.raw if use.static else "(known at run time only)", name, value)
    return out


def guard(call: EngineCall, scanned: Scan, ours: Iterable[str], engine: Engine) -> tuple[str, ...]:
    """Refuse where a flag of `ours` may hide in an expansion, or is there in some runs only.

    Return notes: expansions that are taken as empty, and those beside the opt-in variable.
    """
    unset = [i for i in scanned.loose if _unset(call.words[i].text, engine.env, engine.more_env)]
    hidden = [i for i in scanned.loose if i not in unset]
    if hidden and not call.opted_in:
        # An array's words, or a function's, are not read: $KV_OFFLOAD_ARGS is not seen among them.
        listed = any("@" in call.words[i].text or "*" in call.words[i].text for i in hidden)
        itself = (
            ", on the engine's own command line: in an array, or among a function's arguments, it "
            "is not read"
        )
        where = itself if listed else ""
        opt_in = f"{call.closed}; put ${OPT_IN} (unquoted) there{where}"
        closed = [Refused(Reason.ARGS_NOT_PATCHABLE, opt_in)] if call.closed else []
        unread = Refused(
            Reason.ARGS_NOT_PATCHABLE,
            f"word {hidden[0] + 1} of {call.entrypoint}, {_shown(call, hidden[0])}, may hold any "
            f"flag, and the tier's would silently replace one there; {_to_read(call, hidden)}, or, "
            f"where the tier's engines share no blocks, pass ${OPT_IN}, unquoted, in your own "
            f"script{where if not closed else ''}",
        )
        raise Refused.all_of([unread, *closed])
    for use in scanned.of(*ours):
        _editable(call, use)
    return (
        *(
            f"{call.words[i].text} is taken as empty: the container's env does not set it"
            for i in unset
        ),
        *(
            f"{_shown(call, i)} may hold any flag; one that the tier sets too replaces the tier's"
            for i in hidden
        ),
    )


def _to_read(call: EngineCall, hidden: Sequence[int]) -> str:
    words = [call.words[i] for i in hidden]
    wanted = values_wanted(words)
    if any(word.unset for word in words):
        wanted += ', "" for no flags'
    return f"{wanted}, or write the flags out" if wanted else "write the flags out"


def hidden_flags(
    call: EngineCall, loose: Iterable[int], env: Mapping[str, str | None], more_env: bool
) -> list[str]:
    """Return the expansions of `loose` that may hold any flag, as written."""
    words = call.words
    return [_shown(call, i) for i in loose if not _unset(words[i].text, env, more_env)]


def _shown(call: EngineCall, index: int) -> str:
    text = call.words[index].text
    return "an expansion" if _NAMELESS in text else text


def _unset(text: str, env: Mapping[str, str | None], more_env: bool) -> bool:
    """Return whether a variable is empty: `env` is all there is, and no image sets that name."""
    match = _PLAIN.fullmatch(text)
    return bool(match and match[1] in _USERS_ONLY and not more_env and match[1] not in env)


def legible(scanned: Scan, options: Options, ours: Iterable[str]) -> None:
    """Refuse an abbreviation that may be one of our flags, and a last flag without its value.

    The engine starts with neither; these flags would take our first word for their value, though
    it begins with a dash (argparse's own flags would not).
    """
    last = scanned.uses[-1] if scanned.uses else None
    empty = last is not None and last.static and last.raw is None
    if last and empty and (last.path or last.spelling == "--config"):
        raise Refused(
            Reason.ARGS_NOT_PATCHABLE,
            f"{last.spelling}{'.' if last.path else ''}{last.path} has no value; give it one, or "
            "remove it",
        )
    for use in scanned.uses:
        if options.find(use.spelling) or not use.spelling.startswith("--"):
            continue
        candidates = options.candidates(use.spelling)
        if len(candidates) > 1 and {options.name(spelling) for spelling in candidates} & set(ours):
            raise Refused(
                Reason.ARGS_NOT_PATCHABLE,
                f"{use.spelling} is ambiguous: {', '.join(candidates)}; write the flag out",
            )


def no_credentials(value: object, path: str) -> None:
    """Refuse a value of ours that would put a credential into the pod's arguments."""
    if found := find_credential(value, path):
        raise Refused(
            Reason.CREDENTIAL_IN_ARGV,
            f"{found} would stand in the pod's args; use a backend or a mode that takes it from a "
            "Secret",
        )


def _equal(raw: str | None, value: str | None) -> bool:
    if raw == value:
        return True
    try:
        one, other = json_text.loads(raw or ""), json_text.loads(value or "")
    except ValueError:
        return False
    return isinstance(one, dict | list) and one == other


def _differs(name: str, theirs: str | None, ours: str, value: str | None) -> Refused:
    return Refused(
        Reason.CONNECTOR_CONFLICT,
        f"the user has {_show(name, theirs)}, the tier needs {_show(ours, value)}: remove the "
        "user's, or make them equal",
    )


def _show(name: str, value: str | None) -> str:
    return name if value is None else f"{name} {value}"
