"""What a shell's variables hold where an engine is started: as bash has it, or not known."""

import pytest

from function.command import read
from tests.unit.command import shells


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("bin")
    shells.install(made)
    return made


# (script, the words that are read; None where they are not known)
READ = [
    ("A=1; A=2; vllm serve $A", None),
    ("A=1 B=$A\nvllm serve m$B", ["m1"]),
    ("A=9; A=1 vllm serve m$A", ["m9"]),
    ("A=1 B=2\nvllm serve $A", ["1"]),
    ("A=1 B=2\nA=3 vllm serve $A$B | cat", ["12"]),
    ("A=1 B=2 # c\n\nvllm serve $A >/dev/null && true", ["1"]),
    ("export A=1; vllm serve $A", ["1"]),
    ("readonly A=5; vllm serve $A", ["5"]),
    ("A=1; { A=2; }; vllm serve $A", None),
    ("declare -n r=A; A=1; r=2; vllm serve $A", None),
    ("A=1; f() { local -n q=A; q=2; }; f; vllm serve $A", None),
    ("A=1; printf -vA 2; vllm serve $A", None),
    ("A=1; coproc A { cat; }; vllm serve m$A", None),
    ("export -n B; A=1; vllm serve $A", ["1"]),
    ("OPTARG=1; getopts a: q -a 2; vllm serve $OPTARG", None),
    ("REPLY=1; read <<< 2; vllm serve $REPLY", None),
    ("RANDOM=1; vllm serve $RANDOM", None),
    ("A=1; (A=2); vllm serve $A", None),
    ("A=1; A=2 | cat; vllm serve $A", None),
    ("if true; then A=q & wait; vllm serve m$A; fi", None),
    ("A=1; A=2 && A=3 && vllm serve $A", None),
    ("A=1; A=2 && false && A=3; vllm serve $A", None),
    ("true || A=x && vllm serve m$A", None),
    ("if A=7; then vllm serve $A; fi", None),
    ("A=1; if false; then :; elif A=8; then :; fi; vllm serve $A", None),
    ("A=1; case x in x) A=2 ;; esac; vllm serve $A", None),
    ("until A=3; do :; done; vllm serve $A", None),
    ("m=zz; for m in a b; do vllm serve $m; done", None),
    ('for i in 1 2; do\nA="$A --x$i"\ndone\nvllm serve m $A', None),
    ('while [ "$i" != xxx ]; do vllm serve "m$i"; i=x$i; done', None),
    # Functions: one that is called once is read where it is called.
    ("run() { P=1; vllm serve m --port $P; }; P=2; run", None),
    ("f() { A=x; }; A=y; f; vllm serve $A", None),
    ("f() { A=x; }; A=y; vllm serve $A; f", None),
    ("function f { A=2; }; A=1; f; vllm serve $A", None),
    ('add() { B="$B --x"; }; B=m; add; add; vllm serve $B', None),
    ("f() { g; }; g() { A=2; }; A=1; f; f; vllm serve $A", None),
    ("A=1; f() { A=2; }; C=f; $C; vllm serve $A", None),
    ("A=1; f() { A=2; }; time f; vllm serve $A", None),
    ('trap "A=t" EXIT; A=1; vllm serve $A', None),
    ("local_() { local A=3; vllm serve $A; }; A=1; local_", None),
    ('set -- m; f() { shift; }; f a b; vllm serve "$@"', None),
    ('f() { shift; vllm serve "$@"; }; set -- q; f a m', None),
    ("vllm serve m; vllm() { echo no; }", ["m"]),
    # Builtins, however they are written.
    ('"set" -- q; vllm serve "$@"', None),
    ('set -- a m; \\shift; vllm serve "$@"', None),
    ('command set -- q r; vllm serve "$@"', None),
    ("set -o pipefail x; vllm serve m$1", None),
    ("set -eu; set -- b; vllm serve $1", None),
    ("X=eval; A=1; $X A=2; vllm serve $A", None),
    ("A=1; time A=2; vllm serve $A", None),
    ("A=1; . /dev/null; vllm serve $A", None),
    ("printf -v A %s q; vllm serve $A", None),
    ("A=0; A=$((A+1)); vllm serve $A", None),
    ("A=0; ((A++)); vllm serve $A", None),
    ("declare -i N; N=1+1; vllm serve $N", None),
    ("A=1; [[ A=3 -eq 3 ]]; vllm serve $A", None),
    ("A=1; [[ 3 -eq A++ ]]; vllm serve $A", None),
    ("A=1; [[ -v B[A=2] ]]; vllm serve $A", None),
    ("A=1; x=A=5; [[ x -eq 5 ]]; vllm serve $A", None),
    ("A=1; x=A=5; : $((x)); vllm serve $A", None),
    ("A=1; x=A++; ((x)) ; vllm serve $A", None),
    ("A=1; x=A=5; y=x; [[ $y -eq 5 ]]; vllm serve $A", None),
    ("A=1; s=abc; : ${s:A=2:1}; vllm serve $A", None),
    ("A=1; s=abc; n=A=2; : ${s:n:1}; vllm serve $A", None),
    ('A=1; y=(1 2); test -v "y[A=2]"; vllm serve $A', None),
    ('A=1; y=(1 2); [ -v "y[A=2]" ]; vllm serve $A', None),
    ("A=1; x=--a=b; [[ $A -eq 1 ]]; vllm serve $A $x", ["1", "--a=b"]),
    ("A=1; exec {A}>/dev/null; vllm serve $A", None),
    ("A=1; true {A}>/dev/null; vllm serve $A", None),
    ("A=1; N=$((2*4)); vllm serve $A", ["1"]),
    ("A=1; [[ $A == 1 && $A -eq 1 ]] && vllm serve m$A", ["m1"]),
    ("A=1; declare -i N=A=2; vllm serve $A", None),
    ("A=1; declare -i N; N=A=2; vllm serve $A", None),
    ("A=1; echo ${A:A=2}; vllm serve $A", None),
    ("A=1; A[0]=x; vllm serve $A", None),
    # Expansion and splitting.
    ("A=; B=; vllm serve m $A$B --z", ["m", "--z"]),
    ('A="a\u00a0b"; vllm serve $A', ["a\u00a0b"]),
    ("set -- a b c d e f g h i j; vllm serve ${10}", None),
    ("set -- a b c d e f g h i j; vllm serve $10", None),
    ("A='*'; vllm serve $A", None),
    ("IFS=,; A=a,b; vllm serve $A", None),
    ("IFS=,; A=a,b; eval 'vllm serve $A'", None),
    ('IFS=,; set -- a b; eval "vllm serve $*"', None),
    ('set -- a "b c"; IFS=,; vllm serve "$*"', None),
    ('set -- a "b c"; vllm serve "$*" $1', None),
    ("A=~/x; vllm serve $A", None),
    ("vllm serve x=~/m", None),
    ('A=(m # the model\n--b)\nvllm serve "${A[@]}"', None),
    ("A=(x y)\nvllm serve ${A:-}", None),
    # Shells in shells.
    ("A=1; env A=2 sh -c 'vllm serve m$A'", None),
    ("export A=5; sh -c 'vllm serve m$A'", None),
    ("sudo sh -c 'vllm serve m$A'", None),
    ("setpriv --reset-env sh -c 'vllm serve m$A'", None),
    ("sh -c \"env -u A sh -c 'vllm serve m\\$A'\"", None),
    ("A=5; eval \"sh -c 'vllm serve a\\$A'\"", None),
    ('set -- eval "vllm serve \'a b\'"; "$@"', None),
    ("KV_OFFLOAD_ARGS=--q; eval 'vllm serve m $KV_OFFLOAD_ARGS'", ["m", "--q"]),
]


@pytest.mark.parametrize("outside", [{}, {"A": "e"}])
@pytest.mark.parametrize(("script", "words"), READ, ids=[script for script, _ in READ])
def test_variables(script, words, outside, folder):
    env = [{"name": name, "value": value} for name, value in outside.items()]
    container = {"command": ["bash", "-c", script], "env": env}
    program = read(container)
    assert not program.inert
    known = [[word.value for word in call.words] for call in program.calls]
    if words is None:
        assert all(None in call for call in known), known
        assert known or program.problem
        return
    assert known == [words]
    assert shells.run(container, "bash", folder, {}) == [["vllm", "serve", *words]]


# (script, the container's env, the words that are read; None where they are not known): a default
# is read where env decides which of the two it is. The image may set what env does not.
DEFAULTS = [
    ("vllm serve ${A:-d}", {"A": "e"}, ["e"]),
    ("vllm serve ${A-d}", {"A": "e"}, ["e"]),
    ("vllm serve ${A:=d} x$A", {"A": "e"}, ["e", "xe"]),
    ("vllm serve ${A:?no}", {"A": "e"}, ["e"]),
    ("vllm serve ${A:-d}", {"A": ""}, ["d"]),
    ("vllm serve m ${A-d}", {"A": ""}, ["m"]),
    ("vllm serve m ${A:-}", {"A": ""}, ["m"]),
    ("vllm serve ${A:-d}", {}, None),
    ("vllm serve ${A:=d}", {}, None),
    ("vllm serve ${A:=d}", {"A": ""}, None),
    ("vllm serve ${A:+d}", {"A": "e"}, None),
    ('vllm serve "${A:-d e}"', {"A": ""}, None),
    ('vllm serve "${A:-d e}"', {"A": "e"}, None),
    ('vllm serve ${A:-"d e"}', {"A": "f"}, ["f"]),
    ("vllm serve \"${A:-'}'}\"", {"A": "e"}, None),
    ('vllm serve "m/${A:-d}"', {"A": "e f"}, ["m/e f"]),
    ('vllm serve "${A:-a@b}"', {"A": "e f"}, ["e f"]),
    ("vllm serve ${A:-d}", {"A": "e --f"}, ["e", "--f"]),
    ("vllm serve ${A:-$B}", {"A": "e"}, ["e"]),
    ("vllm serve ${A:-$B}", {"A": "", "B": "b"}, None),
    # A substitution in the default runs only where the default is taken.
    ("vllm serve ${A:-$(exit 3 | wc -l)}", {"A": "e"}, ["e"]),
    ("vllm serve ${A-$(exit 3)}", {"A": "e"}, ["e"]),
    ("vllm serve m ${A-$(exit 3)}", {"A": ""}, ["m"]),
    ("vllm serve ${A:=$(exit 3)} x$A", {"A": "e"}, ["e", "xe"]),
    (
        'A=${A:-$(exit 3 2>/dev/null && echo \'a b\' "c" | wc -l)}; vllm serve "$A"',
        {"A": "e"},
        ["e"],
    ),
    ('vllm serve "${A:-$(exit $B)}"', {"A": "e f"}, ["e f"]),
    ("vllm serve ${A:-$(exit 3)}", {"A": ""}, None),
    ("vllm serve ${A:-$(exit 3)}", {}, None),
    ("vllm serve ${A:=$(exit 3)}", {"A": ""}, None),
    ("vllm serve ${A:+$(exit 3)}", {"A": "e"}, None),
    ("A=1; A=${A:-$(exit 3)}; vllm serve $A", {"A": "e"}, None),
    ("read A; vllm serve ${A:-$(exit 3)}", {"A": "e"}, None),
    ("vllm serve ${A:-$(case x in x) echo d;; esac)}", {"A": "e"}, None),
    ("vllm serve ${A:-$(echo })}", {"A": "e"}, None),
    ("A=1; vllm serve ${A:-d}", {}, ["1"]),
    ("A=; vllm serve ${A:-d}", {"A": "e"}, ["d"]),
    ("A=1; A=2; vllm serve ${A:-d}", {}, None),
    ("read A; vllm serve ${A:-d}", {"A": "e"}, None),
    ("A=${A:-d}; vllm serve $A", {"A": "e"}, ["e"]),
    ("A=${A:-d}\nexport A\nvllm serve $A/x", {"A": "e"}, ["e/x"]),
    ("A=$A/x; vllm serve $A", {"A": "e"}, ["e/x"]),
    ("A=${A:-d}; vllm serve $A", {}, None),
    ("A=${A:-d}; A=$A/y; vllm serve $A", {"A": "e"}, None),
    ("for i in 1 2; do A=$A/x; vllm serve $A; done", {"A": "e"}, None),
    ("f() { A=$A/x; }; f; f; vllm serve $A", {"A": "e"}, None),
    ("B=${A:-d}; vllm serve $B", {"A": "e"}, ["e"]),
    (': "${A:=d}"\nvllm serve $A', {"A": "e"}, ["e"]),
    (": ${A:=d}; vllm serve $A", {"A": ""}, None),
    (": ${A:=d}; A=2; vllm serve $A", {"A": "e"}, None),
    ("read A; : ${A:=d}; vllm serve $A", {"A": "e"}, None),
    ("sh -c 'vllm serve ${A:-d}'", {"A": "e"}, ["e"]),
    ("eval 'vllm serve ${A:-d}'", {"A": "e"}, ["e"]),
    ("KV_OFFLOAD_ARGS=; vllm serve m ${KV_OFFLOAD_ARGS:-d}", {}, ["m", "d"]),
    ("vllm serve m ${KV_OFFLOAD_ARGS:-d}", {"KV_OFFLOAD_ARGS": "e"}, None),
]


@pytest.mark.parametrize(("script", "env", "words"), DEFAULTS)
def test_default_is_read_where_env_decides(script, env, words, folder):
    variables = [{"name": name, "value": value} for name, value in env.items()]
    container = {"command": ["bash", "-c", script], "env": variables}
    known = [[word.value for word in call.words] for call in read(container).calls]
    if words is None:
        assert known and all(None in call for call in known), known
        return
    assert known == [words]
    for shell in ("bash", shells.POSIX):
        assert shells.run(container, shell, folder, {}) == [["vllm", "serve", *words]]


FIXES = [
    ("vllm serve $A", []),
    ("set -a; . /etc/x.env; set +a\nvllm serve $SET", ["remove `. /etc/x.env` (line 1)"]),
    ("M=$SET\nsource x\nvllm serve $M", ["remove `source x` (line 2)"]),
    (
        "vllm serve ${SET:-$(awk '{print $1}' f)}",
        ["write ${SET:-$(awk '{print $1}' f)} (line 1) as $SET"],
    ),
    ("IFS=,\nvllm serve $SET", ["remove the change of IFS (line 1), or quote $SET"]),
    ('IFS=,\nvllm serve "$SET" x', []),
    ("vllm serve $SET", []),
]


@pytest.mark.parametrize(("script", "begins"), FIXES)
def test_fixes_name_what_hides_a_value_that_env_gives(script, begins):
    env = [{"name": "SET", "value": "s"}]
    (call,) = read({"command": ["bash", "-c", script], "env": env}).calls
    fixes = [fix for word in call.words for fix in word.fixes]
    assert [fix[: len(begin)] for fix, begin in zip(fixes, begins, strict=True)] == begins
    if begins:
        assert not any(word.unset for word in call.words)


UNSET = [
    ("vllm serve $A", ["A (line 1)"]),
    ("\n\nvllm serve ${A:-d} \\\n  x${B}y", ["A (line 3)", "B (line 4)"]),
    ('M=${A:-d}\nvllm serve "${M}"', ["A (line 1)"]),
    ("M=${M:-d}\nvllm serve $M", ["M (line 1)"]),
    ('X=(--model "$A" --b)\nvllm serve "${X[@]}"', ["A (line 1)"]),
    ("A=1; A=2; vllm serve $A", []),
    ("A=$B; B=$A; vllm serve $A", []),
    ("vllm serve $(pwd)/$A $SET", ["A (line 1)"]),
    ("vllm serve m $KV_OFFLOAD_ARGS", []),
    ("vllm serve $1 $#", []),
]


@pytest.mark.parametrize(("script", "names"), UNSET)
def test_unknown_words_name_their_variables(script, names):
    env = [{"name": "SET", "value": "s"}]
    (call,) = read({"command": ["bash", "-c", script], "env": env}).calls
    assert [name for word in call.words for name in word.unset] == names
