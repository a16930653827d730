"""Programs that start another program: which of their words are their own.

One row a runner. `values`: options that take the next word; `switches`: options that take none
(short ones may be clustered, and may carry their value in the same word); `operands`: words of
their own before the command. An option that the row does not name makes the line unreadable:
whether it takes a value is then not known. Sources: the tools' manual pages.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from function.command.model import Word, shown


@dataclass(frozen=True)
class Runner:
    values: frozenset[str] = frozenset()
    switches: frozenset[str] = frozenset()
    operands: int = 0
    # `env`: NAME=VALUE words come before the command.
    assignments: bool = False
    # The words that must follow the name before its options (`uv run`, `nsys profile`).
    subcommands: frozenset[str] = frozenset()
    # Other subcommands, which surely start no engine.
    idle: frozenset[str] = frozenset()
    # The command begins only after a bare `--`.
    separator: bool = False
    # Options that make it do something else than run the command.
    other: frozenset[str] = frozenset()
    # A long option that is not named here is a switch, or has its value after `=`.
    long_switches: bool = False
    # `-5`, `-n5`: a number as an option (nice).
    numeric: bool = False


def _row(values: str = "", switches: str = "", operands: int = 0, **more: Any) -> Runner:
    for key in ("subcommands", "idle", "other"):
        if key in more:
            more[key] = frozenset(more[key].split())
    return Runner(frozenset(values.split()), frozenset(switches.split()), operands, **more)


_UV_VALUES = """--with -w --with-editable --with-requirements -p --python --project --directory
 --extra --no-extra --group --no-group --only-group --env-file --index
 --default-index -i --index-url --extra-index-url -f --find-links --package --config-file
 --cache-dir --link-mode --resolution --prerelease
 --refresh-package --reinstall-package -C --config-setting --color --index-strategy
 --keyring-provider --exclude-newer -P --upgrade-package --no-install-package"""
_UV_SWITCHES = """--no-sync --frozen --locked --isolated --active --no-project --no-dev --dev
 --only-dev --all-extras --all-groups --no-default-groups --all-packages --exact --no-editable
 --no-env-file -n --no-cache --no-config --offline -q --quiet -v --verbose --refresh --reinstall
 -U --upgrade --managed-python --no-managed-python --no-python-downloads --no-progress --no-index
 --compile-bytecode --native-tls"""
_NSYS_VALUES = """-b --backtrace -c --capture-range --capture-range-end -y --delay -d --duration
 -e --env-var -o --output --sample -s -t --trace --stats --export -f --force-overwrite --kill -x
 --stop-on-exit -w --show-output --trace-fork-before-exec --cuda-memory-usage --cuda-graph-trace
 --gpu-metrics-devices --gpu-metrics-device --gpu-metrics-set --session-new --session --cpuctxsw
 --cudabacktrace --osrt-threshold --python-sampling --python-backtrace --pytorch --wait -n
 --inherit-environment --python-sampling-frequency --nvtx-capture -p --run-as --cuda-flush-interval
 --samples-per-backtrace"""
_RAY_VALUES = """--address --min-nodes --num-cpus --num-gpus --resources --labels
 --object-store-memory --memory --node-ip-address --temp-dir --disable-usage-stats"""

RUNNERS: dict[str, Runner] = {
    "env": _row(
        "-u --unset -C --chdir",
        "-i - --ignore-environment -v --debug",
        assignments=True,
        other="-S --split-string -0 --null",
    ),
    "numactl": _row(
        "-i --interleave -N --cpunodebind -C --physcpubind -m --membind -p --preferred"
        " -w --weighted-interleave -P --preferred-many -c --cpubind",
        "-a --all -l --localalloc -b --balancing",
        other="-s --show -H --hardware",
    ),
    "taskset": _row("", "-a --all-tasks -c --cpu-list", operands=1, other="-p --pid"),
    "nice": _row("-n --adjustment", numeric=True),
    "ionice": _row("-c --class -n --classdata", "-t --ignore", other="-p --pid -P --pgid -u --uid"),
    "chrt": _row(
        "-T --sched-runtime -P --sched-period -D --sched-deadline",
        "-b --batch -d --deadline -f --fifo -i --idle -o --other -r --rr"
        " -R --reset-on-fork -v --verbose",
        operands=1,
        other="-p --pid -m --max",
    ),
    "stdbuf": _row("-i --input -o --output -e --error"),
    "timeout": _row(
        "-k --kill-after -s --signal", "-v --verbose --foreground --preserve-status", operands=1
    ),
    "nohup": _row(),
    "setsid": _row("", "-c --ctty -f --fork -w --wait"),
    "time": _row("-f --format -o --output", "-a --append -p --portability -v --verbose -q --quiet"),
    "catchsegv": _row(),
    "unbuffer": _row("", "-p"),
    "tini": _row("-p -e", "-s -v -vv -vvv -w -g", other="-h --version -l"),
    "dumb-init": _row("-r --rewrite", "-c --single-child -v --verbose", other="-h -V --version"),
    "catatonit": _row("", "-g", other="-P -v"),
    "gosu": _row(operands=1, other="--version -v --help -h"),
    "su-exec": _row(operands=1),
    "setpriv": _row(
        "--reuid --regid --groups --inh-caps --ambient-caps --bounding-set --securebits"
        " --pdeathsig --selinux-label --apparmor-profile",
        "--nnp --no-new-privs --clear-groups --keep-groups --init-groups --reset-env",
        other="-d --dump",
    ),
    "sudo": _row(
        "-u --user -g --group -C -D --chdir -h --host -p --prompt -R --chroot -r -t -T",
        "-E --preserve-env -H --set-home -n --non-interactive -b --background -k -S -P",
        assignments=True,
        other="-e --edit -i --login -s --shell -l --list -v -V -K",
    ),
    "runuser": _row(
        "-u --user -g --group -G --supp-group",
        "-m -p --preserve-environment",
        other="-c --command -l --login - -s --shell",
    ),
    "strace": _row(
        "-o --output -e --trace -s --string-limit -p -E -u -a -b -I -O -P -S -X",
        "-f -ff --follow-forks -c -C -d -h -i -k -n -q -qq -r -t -tt -ttt -T -v -w -x -xx -y -yy -Z"
        " -z",
    ),
    "nsys": _row(
        _NSYS_VALUES,
        "",
        subcommands="profile launch",
        idle="stats export status stop shutdown sessions",
        long_switches=True,
    ),
    "ncu": _row(
        "-o --export -k --kernel-name -c --launch-count -s --launch-skip --set --section"
        " --metrics --target-processes --replay-mode --graph-profiling",
        "-f --force-overwrite",
        long_switches=True,
    ),
    "py-spy": _row(
        "-o --output -f --format -d --duration -r --rate",
        "-g --gil -s --subprocesses -i --idle -n --native -t --threads -F --function --nonblocking",
        subcommands="record",
        separator=True,
    ),
    "uv": _row(
        _UV_VALUES, _UV_SWITCHES, subcommands="run", other="-m --module -s --script --gui-script"
    ),
    "poetry": _row(
        "-C --directory -P --project", "-q --quiet -n --no-interaction", subcommands="run"
    ),
    "pdm": _row("-p --project", "-q -v", subcommands="run"),
    "pipenv": _row("", "", subcommands="run"),
    "hatch": _row("-e --env", "", subcommands="run"),
    "pixi": _row("-e --environment --manifest-path", "--frozen --locked", subcommands="run"),
    "conda": _row(
        "-n --name -p --prefix --cwd",
        "-v --verbose --no-capture-output --live-stream --dev --debug-wrapper-scripts",
        subcommands="run",
    ),
    "micromamba": _row("-n --name -p --prefix --cwd -e --env", "-q --quiet", subcommands="run"),
    "ray": _row(
        _RAY_VALUES,
        "",
        subcommands="symmetric-run",
        idle="start stop status memory timeline job summary list get logs health-check",
        separator=True,
        long_switches=True,
    ),
    "opentelemetry-instrument": _row(
        "--traces_exporter --metrics_exporter --logs_exporter --service_name --id_generator"
        " --exporter_otlp_endpoint --exporter_otlp_protocol",
        "",
    ),
    "ddtrace-run": _row("", "-d --debug -p --profiling", other="-i --info -v --version"),
    # NVIDIA's base images: prints a banner, then exec "$@".
    "nvidia_entrypoint.sh": _row(),
    "busybox": _row(),
    # Shell builtins that run their words.
    "exec": _row("-a", "-c -l"),
    "command": _row("", "-p", other="-v -V"),
    "builtin": _row(),
}

ALIASES = {"tini-static": "tini", "mamba": "conda", "cuda_entrypoint.sh": "nvidia_entrypoint.sh"}


def basename(word: str) -> str:
    return word.rsplit("/", 1)[-1]


def runner(name: str) -> Runner | None:
    return RUNNERS.get(ALIASES.get(name, name))


def command_start(row: Runner, words: Sequence[Word], at: int) -> int | str:
    """The index in `words` where the command that the runner runs begins; `at`: behind its name.

    A text says why that is not known; "" that it runs no command at all.
    """
    if row.subcommands:
        # Global options may stand before the subcommand (`uv --quiet run`).
        behind = _options(row, words, at, stop=row.subcommands | row.idle)
        if isinstance(behind, str):
            return behind
        if behind >= len(words) or words[behind].value in row.idle:
            return ""
        if words[behind].value not in row.subcommands:
            return f"{shown(words[behind].text)} is not known here"
        at = behind + 1
    if row.separator:
        return next((i + 1 for i in range(at, len(words)) if words[i].value == "--"), "")
    behind = _options(row, words, at)
    if isinstance(behind, str):
        return behind
    at = behind
    for _ in range(row.operands):
        if at >= len(words):
            return ""
        if words[at].many:
            return f"{shown(words[at].text)} may be several words"
        at += 1
    while row.assignments and at < len(words) and _is_assignment(words[at]):
        at += 1
    return at if at < len(words) else ""


def _is_assignment(word: Word) -> bool:
    """NAME=VALUE as `env` takes it; the value need not be known when it is one word."""
    known = word.prefix if word.value is None else word.value
    return "=" in known and not known.startswith("=") and not word.many


def _options(
    row: Runner, words: Sequence[Word], at: int, stop: frozenset[str] = frozenset()
) -> int | str:
    while at < len(words):
        word = words[at]
        if word.value is None and (word.many or not word.prefix):
            return _unknown(word) if row.values or row.switches else at
        value = word.value if word.value is not None else word.prefix
        if value == "--":
            return at + 1
        if value in stop or (value != "-" and not value.startswith("-")):
            return at
        took = _option_length(row, value)
        if isinstance(took, str):
            return took
        at += took
    return at


def _unknown(word: Word) -> str:
    return f"{shown(word.text)} is not known here"


def _option_length(row: Runner, value: str) -> int | str:
    """How many words the option takes (1 or 2), or why that is not known."""
    name = value.split("=", 1)[0]
    if name in row.other:
        return f"its option {shown(name)} does something else than run a command"
    if value in row.values:
        return 2
    if value in row.switches:
        return 1
    if value.startswith("--"):
        if "=" in value and (name in row.values or name in row.switches or row.long_switches):
            return 1
        return 1 if row.long_switches else f"its option {shown(name)} is not known here"
    if row.numeric and value[1:].lstrip("+-").isdigit():
        return 1
    # A cluster of short switches, the last of which may take the rest, or the next word.
    for at in range(1, len(value)):
        short = "-" + value[at]
        if short in row.values:
            return 2 if at == len(value) - 1 else 1
        if short not in row.switches:
            return f"its option {short} is not known here"
    return 1
