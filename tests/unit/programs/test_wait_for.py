"""The program of waiting init containers, run as a process."""

import signal
import socket
import subprocess
import sys

from programs import wait_for


def start(*arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, wait_for.__file__, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_process_ends_when_one_address_answers() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        waiting = start("30", "127.0.0.1:1", f"127.0.0.1:{port}")
        out, err = waiting.communicate()
    assert (waiting.returncode, err) == (0, "")
    assert out == f"waiting for 127.0.0.1:1, 127.0.0.1:{port}\n"


def test_host_alone_is_resolved() -> None:
    """A headless Service has no address before one of its pods is ready."""
    assert wait_for.refusal("localhost") == ""
    assert wait_for.refusal("store.invalid").startswith("store.invalid: ")


def test_process_times_out_with_a_reason() -> None:
    waiting = start("0", "127.0.0.1:1")
    _, err = waiting.communicate()
    assert waiting.returncode == 1
    assert err.startswith("The store did not answer within 0 s: 127.0.0.1:1: ")
    assert "Connection refused" in err


def test_sigterm_ends_the_wait() -> None:
    waiting = start("600", "127.0.0.1:1")
    assert waiting.stdout is not None
    waiting.stdout.readline()
    waiting.send_signal(signal.SIGTERM)
    waiting.communicate()
    assert waiting.returncode == 1
