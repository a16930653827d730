"""A grammar of containers whose commands start engines, and mutations of their text.

Everything that a generated script runs is harmless (builtins and recorders), so that it may be run;
a mutated one must not be.
"""

import random
import shlex
from collections.abc import Sequence

PLAIN = ("m", "--a", "--port", "8000", "--b=1", "x=y", "a.b/c", "--", "-", "{}", "é", "--long_name")
QUOTED = ("a b", "", '{"k": "v"}', "it's", 'a"b', "$x", "`", "\\", "*", "#", ";", "(", "!", "a\nb")
NAMES = ("A", "B", "ARGS", "KV_OFFLOAD_ARGS", "VLLM_ADDITIONAL_ARGS")
ENGINES = (
    "vllm serve",
    "exec vllm serve",
    "python3 -m vllm.entrypoints.openai.api_server",
    "python3 -u -m sglang.launch_server",
    "sglang serve",
    "exec sglang serve",
    "command vllm serve",
)
# Starts that the recorders would not see alike; they are read and rewritten, never run.
OTHERS = (
    "numactl -N 0 vllm serve",
    "uv run vllm serve",
    "/opt/x/vllm serve",
    "./w.sh vllm serve",
    "$A vllm serve",
    "tini -- vllm serve",
    "ray start",
    "tritonserver",
    "bash -c",
    "$@",
)
HARMLESS = ("true", ":", "echo hi", "set -e", "cd /", "export C=1", "shift", "false", "unset Z")
CHANGES = (
    "shift",
    "unset A",
    "export A=e",
    'set -- "$@" n',
    'A="$A --n"',
    'B="$A$A"',
    "A=$1",
    "IFS=,",
)
AFTER = ("", "", "", " 2>&1", " >/dev/null", "</dev/null", " 2>/dev/null --z", " # c", " & wait")
SPECIAL = "'\"\\$`;&|<>(){}[]*?!#~\n \t=,@-"


class Source:
    """Choices, from a generator of random numbers or from a fuzzer's bytes."""

    def __init__(self, origin: random.Random | bytes) -> None:
        self._random = origin if isinstance(origin, random.Random) else None
        self._data = origin if isinstance(origin, bytes) else b""
        self._at = 0

    def below(self, n: int) -> int:
        if self._random is not None:
            return self._random.randrange(n)
        value = self._data[self._at] if self._at < len(self._data) else 0
        self._at += 1
        return value % n

    def pick(self, options: Sequence):
        return options[self.below(len(options))]

    def chance(self, one_in: int) -> bool:
        return self.below(one_in) == 1


def word(s: Source, bash: bool) -> str:
    kind = s.below(14)
    if kind < 6:
        return s.pick(PLAIN)
    if kind < 8:
        return shlex.quote(s.pick(QUOTED))
    if kind == 8:
        text = s.pick(QUOTED)
        return '"' + "".join("\\" + c if c in '"\\$`' else c for c in text) + '"'
    if kind == 9:
        return s.pick(
            (
                "$A",
                "${B}",
                '"$A"',
                "--x=$A",
                '"${B:-d}"',
                '"p $B q"',
                '"$1"',
                "${A}z",
                "$A$B",
                '"${10}"',
            )
        )
    if kind == 10:
        return s.pick(("$KV_OFFLOAD_ARGS", "${VLLM_ADDITIONAL_ARGS}", "$$(B)", "$(A)", "$((1+1))"))
    if kind == 11:
        return s.pick(('"$@"', "$@", "$*", '"$*"'))
    if kind == 12 and bash:
        return s.pick(('"${ARGS[@]}"', "${ARGS[@]}", '"${ARGS[*]}"', "$'a\\tb'", "{a,b}"))
    return s.pick(PLAIN) + shlex.quote(s.pick(QUOTED))


def words(s: Source, bash: bool, most: int = 5) -> str:
    out = ""
    for _ in range(s.below(most + 1)):
        out += s.pick((" ", " ", " ", "  ", " \\\n  ", "\t")) + word(s, bash)
    return out


def engine(s: Source, bash: bool, runnable: bool, ends_line: bool = True) -> str:
    start = s.pick(ENGINES) if runnable or not s.chance(4) else s.pick(OTHERS)
    before = s.pick(("", "", "", "", "X=1 ", "X='a b' ", ">/dev/null "))
    after = s.pick(AFTER if ends_line else AFTER[:-2])
    return before + start + words(s, bash) + after


def nested(s: Source, bash: bool, runnable: bool, depth: int) -> str:
    inner = script(s, False, runnable, depth - 1)
    quoted = shlex.quote(inner)
    if s.chance(2):
        quoted = '"' + "".join("\\" + c if c in '"\\$`' else c for c in inner) + '"'
    if s.chance(4):
        quoted = '"' + "".join("\\" + c if c in '"\\`' else c for c in inner) + '"'
    return s.pick(("eval ", "sh -c ", "eval ", "exec sh -ec ")) + quoted + words(s, bash, 3)


def statement(s: Source, bash: bool, runnable: bool, depth: int) -> str:
    kind = s.below(20)
    if kind < 6 or depth <= 0:
        return engine(s, bash, runnable)
    if kind == 6:
        return s.pick(HARMLESS)
    if kind == 7:
        return f"{s.pick(NAMES[:2])}={word(s, bash)}"
    if kind == 8:
        return "set --" + words(s, bash)
    if kind == 9 and bash:
        return f"ARGS{s.pick(('=', '+='))}({words(s, bash)})"
    if kind == 10:
        return nested(s, bash, runnable, depth)
    if kind == 11:
        return variables(s, bash, runnable, depth)
    a = script(s, bash, runnable, depth - 1)
    b = statement(s, bash, runnable, depth - 1)
    test = s.pick(('[ -n "$A" ]', "true", "false", "test $# -gt 0", '[ "$W" = 0 ]'))
    return s.pick(
        (
            f"if {test}; then\n{a}\nelse\n{b}\nfi",
            f"for i in 1 2; do\n{a}\ndone",
            f"case $A in\nx) {b} ;;\n*)\n{a}\n;;\nesac",
            "{\n" + a + "\n}",
            f"(\n{a}\n)",
            "run() {\n" + a + "\n}\nrun" + words(s, bash, 2),
            f"{test} && {engine(s, bash, runnable, False)} || {s.pick(HARMLESS)}",
            f"cat >/dev/null <<'E'\n{a}\nE\n{b}",
            f"{engine(s, bash, runnable, False)} | cat",
        )
    )


def variables(s: Source, bash: bool, runnable: bool, depth: int) -> str:
    """What a variable holds: over branches, loops, functions and shells."""
    name = s.pick(("A", "B"))
    value = word(s, bash)
    change = s.pick((*CHANGES, f"{name}={value}", f"{name}={value}", f"{name}={value} C=$A"))
    use = engine(s, bash, runnable, False)
    a = script(s, bash, runnable, depth - 1)
    join = (s.pick((" && ", " || ")) for _ in range(9))
    function = s.pick(("run", "go"))
    return s.pick(
        (
            f"{change}\n{use}",
            f"true{next(join)}{change}{next(join)}{use}",
            f"false{next(join)}{change}{next(join)}true{next(join)}{use}",
            f"for {name} in x 'y z'; do\n{use}\ndone\n{use}",
            f"for i in 1 2; do\n{use}\n{change}\ndone\n{use}",
            f"{function}() {{\n{change}\n{use}\n}}\n{name}=1\n{function}{words(s, bash, 2)}\n{a}",
            f"{function}() {{\n{use}\n{change}\n}}\n{function} q\n{a}\n{function}",
            f"{function}() {{\n{a}\n{change}\n}}\n{use}",
            f"({change}; {use})\n{use}",
            f"{change} & wait\n{use}",
            f"env {name}=v sh -c {shlex.quote(use)}",
            f"{name}=v sh -c {shlex.quote(use)}",
            f"{change}\nsh -c {shlex.quote(use)}",
            f"{change}\neval {shlex.quote(use)}\n{a}",
            f"eval {shlex.quote(change)}\n{use}",
        )
    )


def script(s: Source, bash: bool, runnable: bool, depth: int) -> str:
    lines = [statement(s, bash, runnable, depth) for _ in range(1 + s.below(3))]
    return "\n".join(lines)


def mutated(s: Source, text: str) -> str:
    for _ in range(1 + s.below(4)):
        at, to = s.below(len(text) + 1), s.below(len(text) + 1)
        low, high = min(at, to), max(at, to)
        text = s.pick(
            (
                text[:at] + s.pick(SPECIAL) + text[at:],
                text[:at] + text[at + 1 :],
                text[:low] + text[high:],
                text[:at] + text[low:high][:20] + text[at:],
                text[:at],
                text[:at]
                + s.pick(("<<E\n", "\ud800", "${", "$((", "\\\n", "'\\''", "&&"))
                + text[at:],
            )
        )
    return text


def container(s: Source) -> tuple[dict, bool]:
    """A container, and whether its script was mutated or is not fit to be run."""
    env = [
        {"name": n, "value": s.pick(("", "v", "--e 1", "a'b", "$(A) x"))}
        for n in ("A", "B")
        if s.chance(3)
    ]
    if s.chance(4):
        env.append({"name": "VLLM_ADDITIONAL_ARGS", "value": s.pick(("--v 1", "--j '{\"x\": 1}'"))})
    if s.chance(12):
        # A plain argv: the words as they are, quotes and all.
        argv = (s.pick(ENGINES + OTHERS) + words(s, False)).split()
        cut = s.below(len(argv) + 1)
        return {"command": argv[:cut], "args": argv[cut:], "env": env}, True
    bash = s.chance(3)
    runnable = not s.chance(3)
    text = script(s, bash, runnable, s.below(4))
    mutate = s.chance(3)
    if mutate:
        text = mutated(s, text)
    if s.chance(20):
        env.append({"name": "SECRET", "valueFrom": {"secretKeyRef": {"name": "x", "key": "y"}}})
        text, mutate = text.replace("8000", "$(SECRET)"), True
    args = [s.pick(("sh", "--", "x")), *(s.pick(PLAIN + QUOTED) for _ in range(s.below(4)))]
    command = ["bash", "-c"] if bash else ["sh", s.pick(("-c", "-ec"))]
    given = {"command": command, "args": [text, *(args if s.chance(2) else [])], "env": env}
    return given, mutate or not runnable
