"""The command line `kv-offload`; the program `function` serves the function itself."""

import difflib
import importlib
import io
import sys

import click

# Command -> (module, attribute, one line of help); a module is loaded when its command is used.
_COMMANDS = {
    "render": ("kv_offload.cli.render", "Show what Crossplane would compose, without a cluster."),
    "add-step": (
        "kv_offload.cli.add_step",
        "Append our step to a Composition or its copy.",
    ),
    "explain": ("kv_offload.cli.explain", "Show what a pod would get from a tier, and why."),
    "wire": ("kv_offload.cli.wire", "Wire manifests for Helm, kustomize or Argo CD."),
    "validate": ("kv_offload.cli.validate", "Check tiers, for CI."),
    "plan": ("kv_offload.cli.plan", "Show what an edit of a tier refuses, restarts and changes."),
    "status": ("kv_offload.cli.status", "Show tiers, and which workloads they wire."),
    "audit": ("kv_offload.cli.audit", "List the known faults that running engines fall under."),
    "probe": (
        "kv_offload.cli.probe",
        "List what an image holds, from inside it.",
    ),
    "doctor": ("kv_offload.cli.doctor", "Check that our step runs, and will keep running."),
    "version": ("kv_offload.cli.version", "Print the version."),
}


class _Lazy(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        command: click.Command = importlib.import_module(_COMMANDS[cmd_name][0]).command
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args[0] not in _COMMANDS:
            close = difflib.get_close_matches(args[0], _COMMANDS, n=1)
            meant = f" Did you mean {close[0]}?" if close else ""
            ctx.fail(f"No such command {args[0]!r}.{meant}")
        # kubectl's habit: files are arguments here, and -f before one says nothing more.
        plain = [a.removeprefix("--filename=") for a in args if a not in ("-f", "--filename")]
        return super().resolve_command(ctx, plain)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in _COMMANDS.items()])


@click.group(cls=_Lazy, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="function-kv-offload", prog_name="kv-offload")
def main() -> None:
    """Render, explain and check KV-cache offload tiers, and add the step to Compositions.

    -f before a file may stay, as kubectl has it; - is the standard input.

    \b
    Exit codes: 0 done, 1 Crossplane would fail or a problem was found, 2 wrong usage or input,
    3 the function refused (fatal result; the composite's conditions are printed).
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8")  # manifests are, whatever the locale says
