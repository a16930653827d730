"""`kv-offload probe`: list what an image holds, from inside it."""

import subprocess
import sys

import click

import programs
from kv_offload.cli.errors import user_errors


@click.command("probe")
@click.option("--print", "show", is_flag=True, help="Print the script, to pipe it into an image.")
@click.option("--python", default=sys.executable, help="The interpreter to look into.")
@click.option("--json", "as_json", is_flag=True, help="Data instead of text.")
@click.option("--quick", is_flag=True, help="Import nothing; read files only.")
@click.option("--model", default="", help="A folder with the model's config.json.")
@user_errors()
def command(show: bool, python: str, as_json: bool, quick: bool, model: str) -> None:
    """List the engine, connectors and packages of an environment, and how to declare them.

    The probe is one file that needs the image's own Python and no GPU:

    \b
    Examples:
      kv-offload probe --print | docker run --rm -i --entrypoint python3 IMAGE -
      kv-offload probe --print | kubectl run probe --rm -i --restart=Never \\
          --image=IMAGE --command -- python3 -
      kv-offload probe --python /opt/venv/bin/python3

    Exit code 1: neither vLLM nor SGLang is there.
    """
    script = programs.text("probe.py")
    if show:
        click.echo(script, nl=False)
        return
    arguments = ["--json"] * as_json + ["--quick"] * quick + (["--model", model] if model else [])
    try:
        done = subprocess.run([python, "-", *arguments], input=script, text=True)
    except OSError as problem:
        raise click.UsageError(f"{python}: {problem.strerror}") from problem
    sys.exit(done.returncode)
