"""Scripts that start engines, with what a shell must really run.

`starts`: per run, the argv of every engine start, in order; PLUS stands where appended words must
arrive. `runs` pairs further environments with their starts. `shells`: "sh" runs everywhere, "bash"
needs bash.
"""

from dataclasses import dataclass, field

PLUS = object()


@dataclass(frozen=True)
class Case:
    name: str
    script: str
    starts: list[list[object]]
    args: tuple[str, ...] = ()
    shell: tuple[str, ...] = ("sh", "-c")
    env: dict[str, str] = field(default_factory=dict)
    # Values of runtime variables that the container's env does not hold.
    runtime: dict[str, str] = field(default_factory=dict)
    more: tuple[tuple[dict[str, str], list[list[object]]], ...] = ()

    @property
    def container(self) -> dict[str, object]:
        env = [{"name": name, "value": value} for name, value in self.env.items()]
        return {"command": [*self.shell], "args": [self.script, *self.args], "env": env}


BASH = ("bash", "-c")
V, S = ["vllm", "serve"], ["sglang", "serve"]
API = ["python3", "-m", "vllm.entrypoints.openai.api_server"]
SGL = ["python3", "-m", "sglang.launch_server"]

CASES = [
    Case("plain", "vllm serve m --port 1", [[*V, "m", "--port", "1", PLUS]]),
    Case("exec", "exec vllm serve m", [[*V, "m", PLUS]]),
    Case("path", "exec /usr/bin/env vllm serve m", [[*V, "m", PLUS]]),
    Case(
        "continuation", "vllm serve m \\\n  --a 1 \\\n  --b\n", [[*V, "m", "--a", "1", "--b", PLUS]]
    ),
    Case("trailing continuation", "vllm serve m \\\n  --a 1 \\\n", [[*V, "m", "--a", "1", PLUS]]),
    Case("chain", "cd / && export A=1 && vllm serve m && echo done", [[*V, "m", PLUS]]),
    Case("or chain", "vllm serve m || exit 3", [[*V, "m", PLUS]]),
    Case("background", "vllm serve m & wait", [[*V, "m", PLUS]]),
    Case("background, exec group", "{ exec vllm serve m; } &\nwait $!", [[*V, "m", PLUS]]),
    Case("subshell", "(cd /tmp; exec vllm serve m)", [[*V, "m", PLUS]]),
    Case("pipe", "vllm serve m 2>&1 | cat", [[*V, "m", PLUS]]),
    Case("redirections", "vllm serve m >/dev/null 2>&1 </dev/null", [[*V, "m", PLUS]]),
    Case("tight redirection", "vllm serve m>/dev/null", [[*V, "m", PLUS]]),
    Case("redirection first", ">/dev/null vllm serve m", [[*V, "m", PLUS]]),
    Case(
        "words behind a redirection", "vllm serve m >/dev/null --a 1", [[*V, "m", "--a", "1", PLUS]]
    ),
    Case("comment", "vllm serve m # --not this\n# nor this", [[*V, "m", PLUS]]),
    Case("assignment before", "A=1 B='x y' vllm serve m", [[*V, "m", PLUS]]),
    Case(
        "quotes",
        """vllm serve 'a b' "c d" e\\ f "g\\"h" '{"x": "y"}' "a"'b'c\n""",
        [[*V, "a b", "c d", "e f", 'g"h', '{"x": "y"}', "abc", PLUS]],
    ),
    Case("empty word", "vllm serve m --a '' --b \"\"", [[*V, "m", "--a", "", "--b", "", PLUS]]),
    Case("bare --", "vllm serve m -- rest", [[*V, "m", PLUS, "--", "rest"]]),
    Case(
        "module",
        "exec python3 -m vllm.entrypoints.openai.api_server --model m",
        [[*API, "--model", "m", PLUS]],
    ),
    Case(
        "sglang",
        "python3 -m sglang.launch_server --model-path m --tp 2",
        [[*SGL, "--model-path", "m", "--tp", "2", PLUS]],
    ),
    Case("sglang serve", "sglang serve --model-path m", [[*S, "--model-path", "m", PLUS]]),
    Case("runners", "exec nice -n 1 env A=1 timeout 60 vllm serve m", [[*V, "m", PLUS]]),
    Case(
        "arguments",
        'exec vllm serve m "$@"',
        [[*V, "m", "--a", "b c", PLUS]],
        args=("--", "--a", "b c"),
    ),
    Case(
        "all from arguments",
        'exec vllm serve "$@"',
        [[*V, "m", "--a", PLUS]],
        args=("sh", "m", "--a"),
    ),
    Case(
        "program from arguments",
        'echo starting; exec "$@"',
        [[*V, "m", "--a", PLUS]],
        args=("-", "vllm", "serve", "m", "--a"),
    ),
    Case(
        "arguments behind a bare --",
        'exec vllm serve m -- "$@"',
        [[*V, "m", PLUS, "--", "x"]],
        args=("sh", "x"),
    ),
    Case(
        "arguments with a bare --",
        'exec vllm serve m --k "$@"',
        [[*V, "m", "--k", PLUS, "--", "x"]],
        args=("sh", "--", "x"),
    ),
    Case("no arguments", 'exec vllm serve m "$@"', [[*V, "m", PLUS]]),
    Case(
        "first argument is $0",
        'exec vllm serve m "$@"',
        [[*V, "m", "--b", PLUS]],
        args=("--a", "--b"),
    ),
    Case(
        "unquoted arguments",
        "exec vllm serve m $@",
        [[*V, "m", "a", "b", PLUS]],
        args=("sh", "a b"),
    ),
    Case(
        "shift",
        'M=$1; shift; exec vllm serve "$M" "$@"',
        [[*V, "m", PLUS, "--a"]],
        args=("sh", "m", "--a"),
    ),
    Case(
        "a bare -- from a variable",
        'set -- -- x\nA="$1 y"; vllm serve m $A',
        [[*V, "m", PLUS, "--", "y"]],
    ),
    Case("set options", "set -eu\nset -e -u\nexec vllm serve m", [[*V, "m", PLUS]]),
    Case("variable", "MODEL=m; vllm serve $MODEL --a ${MODEL}x", [[*V, "m", "--a", "mx", PLUS]]),
    Case("split variable", 'X="--a 1"\nvllm serve m $X', [[*V, "m", "--a", "1", PLUS]]),
    Case(
        "env",
        "vllm serve $MODEL $EXTRA",
        [[*V, "m", "--a", "1", PLUS]],
        env={"MODEL": "m", "EXTRA": "--a 1"},
    ),
    Case(
        "runtime variable",
        "vllm serve m $EXTRA",
        [[*V, "m", PLUS, "--a", "1"]],
        runtime={"EXTRA": "--a 1"},
    ),
    Case(
        "runtime value",
        "vllm serve m --a=$EXTRA --b 1",
        [[*V, "m", "--a=z", "--b", "1", PLUS]],
        runtime={"EXTRA": "z"},
    ),
    Case("runtime model", "vllm serve $MODEL", [[*V, "m", PLUS]], runtime={"MODEL": "m"}),
    Case("substitution", "vllm serve m --n $(echo 3)", [[*V, "m", PLUS, "--n", "3"]]),
    Case("quoted substitution", 'vllm serve m --n "$(echo 3)"', [[*V, "m", "--n", "3", PLUS]]),
    Case(
        "kubernetes variable",
        "vllm serve $(MODEL) --a $$(echo 1) --b",
        [[*V, "m", "--a", "1", "--b", PLUS]],
        env={"MODEL": "m"},
    ),
    Case(
        "branch",
        'if [ "$W" = 0 ]; then vllm serve m; else vllm serve m --headless; fi',
        [[*V, "m", PLUS]],
        runtime={"W": "0"},
        more=(({"W": "1"}, [[*V, "m", "--headless", PLUS]]),),
    ),
    Case(
        "case",
        "case $W in\n0) vllm serve m ;;\n*) vllm serve m --w $W ;;\nesac",
        [[*V, "m", PLUS]],
        runtime={"W": "0"},
        more=(({"W": "1"}, [[*V, "m", PLUS, "--w", "1"]]),),
    ),
    Case(
        "set in the other branch",
        'if [ "$W" = 0 ]; then set -- --a; M=n; else vllm serve m --m="$M" "$@"; fi',
        [[*V, "m", "--m=x", PLUS]],
        runtime={"W": "1", "M": "x"},
    ),
    Case(
        "function with variables",
        'start() { M=$1; vllm serve $M --port "$PORT"; }\nPORT=1\nstart m',
        [[*V, "m", "--port", "1", PLUS]],
    ),
    Case("restart loop", "while true; do vllm serve m; sleep 1; done", [[*V, "m", PLUS]]),
    Case("until loop", "until vllm serve m; do sleep 1; done", [[*V, "m", PLUS]]),
    Case("for loop", "for i in 1 2; do vllm serve m; done", [[*V, "m", PLUS], [*V, "m", PLUS]]),
    Case("negated", "! vllm serve m", [[*V, "m", PLUS]]),
    Case(
        "heredoc before",
        "cat >/dev/null <<'EOF'\nvllm serve no $(x) `y`\nEOF\nvllm serve m\n",
        [[*V, "m", PLUS]],
    ),
    Case("heredoc to the engine", "vllm serve m <<EOF\nx\nEOF\n", [[*V, "m", PLUS]]),
    Case("nested sh", "sh -c 'exec vllm serve m --a \"b c\"'", [[*V, "m", "--a", "b c", PLUS]]),
    Case(
        "nested sh, double quotes",
        "sh -c \"exec vllm serve m --a 'b c'\"",
        [[*V, "m", "--a", "b c", PLUS]],
    ),
    Case(
        "nested sh with arguments",
        "sh -c 'exec vllm serve \"$@\"' sh m --a",
        [[*V, "m", "--a", PLUS]],
    ),
    Case("nested twice", """sh -c "sh -c 'exec vllm serve m'" """, [[*V, "m", PLUS]]),
    Case("eval, double quotes", 'eval "exec vllm serve m --a 1"', [[*V, "m", "--a", "1", PLUS]]),
    Case(
        "eval, single quotes",
        "eval 'exec vllm serve m --a \"b c\"'",
        [[*V, "m", "--a", "b c", PLUS]],
    ),
    Case("eval, bare", "eval exec vllm serve m --a", [[*V, "m", "--a", PLUS]]),
    Case(
        "eval of a controller",
        'eval "exec vllm serve m --port 1 ${VLLM_ADDITIONAL_ARGS} $@"',
        [[*V, "m", PLUS, "--port", "1", "--b", "--c"]],
        args=("--", "--b", "--c"),
    ),
    Case(
        "eval with literal env",
        'eval "exec vllm serve m ${VLLM_ADDITIONAL_ARGS} $@"',
        [[*V, "m", "--x", "b c", "--b", PLUS]],
        args=("--", "--b"),
        env={"VLLM_ADDITIONAL_ARGS": "--x 'b c'"},
    ),
    Case(
        "eval of a variable",
        'M=m; eval "vllm serve $M --a \\"\\$M\\""',
        [[*V, "m", "--a", "m", PLUS]],
    ),
    Case(
        "array in lines",
        'ARGS=(\n  m # the model\n  --a 1\n)\nARGS+=(--b)\nvllm serve "${ARGS[@]}" --c',
        [[*V, "m", "--a", "1", "--b", "--c", PLUS]],
        shell=BASH,
    ),
    Case(
        "pipefail",
        "set -x; exec vllm serve m",
        [[*V, "m", PLUS]],
        shell=("bash", "-euo", "pipefail", "-c"),
    ),
    Case(
        "options before -c",
        "vllm serve m",
        [[*V, "m", PLUS]],
        shell=("bash", "-o", "pipefail", "-ec"),
    ),
    Case("-euxc", "vllm serve m", [[*V, "m", PLUS]], shell=("bash", "-euxc")),
    Case("-ec", "vllm serve m", [[*V, "m", PLUS]], shell=("sh", "-ec")),
    Case("-c then -e", "vllm serve m", [[*V, "m", PLUS]], shell=("bash", "-c", "-e", "--")),
    Case("process substitution", "vllm serve m > >(cat)", [[*V, "m", PLUS]], shell=BASH),
    Case("here-string", "vllm serve m <<< 'x y' --a", [[*V, "m", "--a", PLUS]], shell=BASH),
    Case("long text", "echo 'é ü 漢字'; vllm serve 'mödel' --a", [[*V, "mödel", "--a", PLUS]]),
    Case(
        "carriage of quotes",
        'echo "it\'s"; vllm serve m --a \'say "hi"\'',
        [[*V, "m", "--a", 'say "hi"', PLUS]],
    ),
    Case("trap", "trap 'kill 0' TERM\nvllm serve m &\nwait $!", [[*V, "m", PLUS]]),
]

# (script, args, env, what the refusal must name)
CLOSED = [
    ("./start.sh vllm serve m", (), {}, "./start.sh"),
    ("cat <<EOF\n$(vllm serve m)\nEOF", (), {}, "here-document"),
    ("echo `vllm serve m`", (), {}, "backquotes"),
    ("alias vllm=echo\nvllm serve m", (), {}, "an alias (line 1)"),
    ("command alias vllm=echo\nvllm serve m", (), {}, "an alias (line 1)"),
    ("command -p -- alias vllm=echo\nvllm serve m", (), {}, "an alias (line 1)"),
    ("eval 'alias vllm=echo'\nvllm serve m", (), {}, "an alias (line 1)"),
    ("eval alias vllm=echo\nvllm serve m", (), {}, "an alias"),
    ("A=alias; $A vllm=echo\nvllm serve m", (), {}, "an alias"),
    ("hash -p /bin/echo vllm\nvllm serve m", (), {}, "hash -p"),
    ("set -ek\nvllm serve m A=1", (), {}, "set -k"),
    ("$WRAPPER vllm serve m", (), {}, "$WRAPPER"),
    ('eval "vllm $ARGS serve; vllm serve m"', (), {}, "ARGS"),
    ('run() { vllm serve "$@"; }\nrun a\nrun b', (), {}, "$@"),
    ('run() { vllm serve "$@"; }\nrun m --a', (), {}, "$@"),
    ('set -- m --a "b c"\nexec vllm serve "$@"', (), {}, "$@"),
    ('set -- "$@" --b\nexec vllm serve "$@"', ("sh", "m"), {}, "$@"),
    ('A=(m --a "b c")\nexec vllm serve "${A[@]}"', (), {}, "${A[@]}"),
    ('A=(m)\nif x; then A+=(--q); fi\nvllm serve "${A[@]}"', (), {}, "${A[@]}"),
    ('vllm serve m "$KV_OFFLOAD_ARGS"', (), {}, "without quotes"),
    ("set -eu; IFS=$'\\n\\t'\nvllm serve m $KV_OFFLOAD_ARGS", (), {}, "changes IFS"),
    ("f() { local IFS=,; vllm serve m ${KV_OFFLOAD_ARGS:-}; }\nf", (), {}, "changes IFS"),
    ("IFS=,; eval 'vllm serve m $KV_OFFLOAD_ARGS'", (), {}, "changes IFS"),
    ("vllm serve m -- $KV_OFFLOAD_ARGS", (), {}, "bare --"),
    ("vllm serve m; if then", (), {}, "cannot read the script"),
    ('A="x -- y"; vllm serve m $A', (), {}, "bare --"),
    ("vllm serve m --lo\\\nng 1", (), {}, "goes on behind"),
    ("vllm serve m \\ \n", (), {}, "goes on behind"),
    ("vllm serve m \\", (), {}, "cannot read the script"),
]
# (script, problem contains, inert, foreign)
NO_CALLS = [
    ("ray start --block --address=$LWS_LEADER_ADDRESS:6379", "", True, ""),
    ("sleep 3; ray start --head && while true; do sleep 1; done", "", True, ""),
    ("", "", True, ""),
    ("# vllm serve m", "", True, ""),
    ("echo 'vllm serve m'", "", True, ""),
    ("cat > run.sh <<'EOF'\nvllm serve m\nEOF\nbash run.sh", "run.sh", False, ""),
    ("bash <<'EOF'\nvllm serve m\nEOF", "input", False, ""),
    ("/entrypoint.sh", "/entrypoint.sh", False, ""),
    ("exec $CMD", "$CMD", False, ""),
    ('CMD=(vllm serve m)\nexec "${CMD[@]}"', "${CMD[@]}", False, ""),
    ('eval "$CMD"', "CMD", False, ""),
    ("exec tritonserver --model-repository=/m", "", False, "NVIDIA Triton"),
    ("python3 -m dynamo.vllm --model m", "", False, "NVIDIA Dynamo"),
    ("if true; then", "cannot read the script", False, ""),
]
