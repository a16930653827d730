"""Scripts that start several engines: at the same time, or one at a time."""

import pytest

from function.command import read

RUN = "vllm serve m --port 8000"

# A script, and whether several of its engines run at once.
AT_ONCE = {
    "two jobs": f"{RUN} &\n{RUN} &\nwait -n\n",
    "two jobs and a wait for both": f"{RUN} &\n{RUN} &\nwait\n",
    "a job and a last command": f"{RUN} > /log 2>&1 &\nexec {RUN}",
    "a job of a list": f"sleep 1 && {RUN} &\n{RUN}",
    "a loop": f"for i in 0 1; do\n CUDA_VISIBLE_DEVICES=$i {RUN} &\ndone\nwait\n",
    "a loop in C's style": f"for ((i=0; i<4; i++)); do {RUN} & done; wait",
    "a loop that reads": f"seq 2 | while read i; do {RUN} & done; wait",
    "a loop that waits for any job": f"while true; do {RUN} & wait -n; done",
    "a loop that waits for another job": f"M=$!; while true; do {RUN} & wait $M; done",
    "a loop that waits in some runs": f"while true; do {RUN} & test -e /a && wait; done",
    "a subshell in a loop": f"for i in 0 1; do ( {RUN} & ); wait; done",
    "a shell in a loop": f"for i in 0 1; do bash -c '{RUN} &'; wait; done",
    "a loop in a shell": f"bash -c 'for i in 0 1; do {RUN} & done; wait'",
    "a function called twice": f"start() {{ {RUN} & }}\nstart\nstart\nwait",
    "a function in the background": f"start() {{ {RUN}; }}\nstart &\nstart &\nwait",
    "a function in a loop": f"start() {{ {RUN}; }}\nfor i in 0 1; do start & done; wait",
    "a function of a function": f"a() {{ {RUN} & }}\nb() {{ a; }}\nb; b; wait",
    "an eval": f"for i in 0 1; do eval '{RUN} &'; done; wait",
    "a job before a branch": f"{RUN} &\nif test -e /a; then {RUN}; fi",
    "jobs of two ifs": f"if a; then {RUN} & fi\nif b; then {RUN} & fi\nwait",
    "a case that falls through": f"case $A in a) {RUN} & ;& b) {RUN} & ;; esac; wait",
    "setsid that forks": f"setsid -f {RUN}\nexec {RUN}",
    "xargs with several processes": f"seq 2 | xargs -P2 -I@ {RUN}",
    "many": f"{RUN} & wait\n" * 17,
    "a wait for one of two": f"{RUN} & A=$!\n{RUN} & B=$!\nwait $A $B\n",
    "a last job that is another one": f"{RUN} &\nsleep 9 &\nwait $!\n{RUN}",
}
# As many functions in functions as the limits of a script admit.
AT_ONCE["deep functions"] = "\n".join(
    [f"function f{i} {{ f{i + 1}; }}" for i in range(1500)]
    + [f"function f1500 {{ {RUN} & }}", "f0", "wait"]
)
ONE = {
    "a plain start": f"exec {RUN}",
    "a job": f"{RUN} &\nPID=$!\nuntil curl -sf localhost; do sleep 5; done\nwait $PID",
    "branches": f"if test $A = 0; then {RUN} & elif b; then {RUN} & else {RUN} & fi; wait",
    "cases": f"case $A in a) {RUN} & ;; b) {RUN} & ;; *) {RUN} & esac; wait",
    "a loop that starts again": f"while true; do {RUN}; sleep 5; done",
    "a loop in the background": f"(while true; do {RUN}; done) &\nwait",
    "a loop that waits": f"while true; do {RUN} & PID=$!; trap 'kill $PID' TERM; wait $PID; done",
    "a loop that waits whatever comes": f"while true; do {RUN} & wait $! || true; done",
    "a loop that waits for all": f"while true; do {{ {RUN} & }}; wait; done",
    "a warm start": f"{RUN} & PID=$!\nsleep 60\nkill $PID\nwait $PID\nexec {RUN}",
    "one behind another": f"{RUN}\n{RUN}",
    "one behind another in the background": f"({RUN}; {RUN}) & wait",
    "one or the other": f"{RUN} || {RUN}",
    "a function": f"start() {{ {RUN} & }}\nstart\nwait",
    "a function that waits": f"start() {{ {RUN} & wait $!; }}\nwhile true; do start; done",
    "a function that calls itself": f"start() {{ {RUN}; start; }}\nstart",
    "a function that waits for its last run": (
        f"start() {{ kill $PID; wait $PID; {RUN} & PID=$!; }}\nstart\nstart\nwait"
    ),
    "a log": f"{RUN} 2>&1 | tee /log",
    "many models": f"case $A in {f'?) {RUN} ;; ' * 20} esac",
    "another program in a loop": f"for i in 0 1; do sleep 9 & done; exec {RUN}",
}


def at_once(script):
    program = read({"command": ["bash", "-c", script]})
    assert program.calls, script
    return program.at_once


@pytest.mark.parametrize("name", AT_ONCE)
def test_engines_that_run_at_once_are_found(name):
    assert at_once(AT_ONCE[name])


@pytest.mark.parametrize("name", ONE)
def test_one_engine_at_a_time_is_no_case(name):
    assert at_once(ONE[name]) == ""


def test_their_lines_are_named():
    assert at_once(AT_ONCE["two jobs"]) == "in the background (line 1, line 2)"
    assert at_once(AT_ONCE["a loop"]) == "in the background of a loop (line 2)"


# A script, and what ends it before its engine's line.
ENDED = {
    f"exec /opt/start.sh --port 8000\n{RUN}": "exec /opt/start.sh",
    f"set -e\nA=1 exec sleep infinity >/log 2>&1; {RUN}": "exec sleep",
    f"exit 0\n{RUN}": "exit",
    f"exec /opt/start.sh; sh -c '{RUN}'": "exec /opt/start.sh",
    f"exec /opt/start.sh\nstart() {{ {RUN}; }}\nstart": "exec /opt/start.sh",
    f"exec {'/opt' * 50}\n{RUN}": f"exec {'/opt' * 23}/op... (205 characters)",
    f"exec {RUN}\nexec /opt/start.sh": "",
    f"/opt/start.sh\n{RUN}": "",
    f"test -x /opt/start.sh && exec /opt/start.sh\n{RUN}": "",
    f"if a; then exec /opt/start.sh; fi\n{RUN}": "",
    f"(exec /opt/start.sh)\n{RUN}": "",
    f"exec /opt/start.sh &\n{RUN}": "",
    f"sh -c 'exec /opt/start.sh'\n{RUN}": "",
    f"exec >/log 2>&1\n{RUN}": "",
    f"exec $WRAPPER\n{RUN}": "",
    f'exec "$@"\n{RUN}': "",
    f"exec `wrapper`\n{RUN}": "",
    f"start() {{ {RUN}; }}\nexec /opt/start.sh": "",
    f"start() {{ exec /opt/start.sh; }}\n{RUN}": "",
}


@pytest.mark.parametrize("script", ENDED)
def test_a_script_that_ends_before_its_engine_is_found(script):
    program = read({"command": ["bash", "-c", script]})
    assert program.calls
    assert program.ended_by == ENDED[script]
