"""The function's process entry: `function` serves RunFunction to Crossplane."""

import os
import sys
import time
from datetime import UTC, datetime
from typing import Any

import click
from crossplane.function import cli as sdkcli
from crossplane.function import logging

from function import fn
from function.edge import server

# Core cannot raise its 4 MiB limit for responses, but requests (1,000 observed Objects are
# 4.7 MiB) are limited only by the function's own setting.
MAX_RECV_MIB = 64


@click.command(context_settings={"default_map": {"max_recv_message_size": MAX_RECV_MIB}})
@sdkcli.standard_options
@click.option(
    "--metrics-port",
    type=click.IntRange(0, 65535),
    default=0,
    show_default=True,
    envvar="METRICS_PORT",
    help="Port of the Prometheus metrics; 0 turns them off.",
)
@click.option(
    "--fixed-time",
    type=click.DateTime(["%Y-%m-%dT%H:%M:%SZ"]),
    help="The time of every call, for renders that must not depend on the clock.",
)
@click.version_option(package_name="function-kv-offload", prog_name="function-kv-offload")
def main(
    *,
    debug: bool,
    fixed_time: datetime | None,
    **options: Any,  # click fills in what the other options declare
) -> None:
    """Serve function-kv-offload, a Crossplane composition function."""
    clock = fixed_time.replace(tzinfo=UTC).timestamp if fixed_time else time.time
    logging.configure(level=logging.Level.DEBUG if debug else logging.Level.INFO)
    try:
        server.serve(fn.FunctionRunner(clock=clock, verbose=debug), **options)
    except (ValueError, OSError, RuntimeError) as error:
        sys.exit(f"function: {error}")
    # A thread may still compute for a client that was turned away: nobody waits for it.
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
