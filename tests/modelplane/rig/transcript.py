"""What was done and what was seen, with seconds since the start, for people to read."""

import contextlib
import time
from collections.abc import Iterator


class Transcript:
    """Printed as it goes; pytest must not capture it (-s)."""

    def __init__(self) -> None:
        self._began = time.monotonic()

    @contextlib.contextmanager
    def doing(self, what: str) -> Iterator[None]:
        """An act and its waiting; ends with how long both took."""
        began = time.monotonic()
        self._print(f"* {what}")
        yield
        self._print(f"  done in {time.monotonic() - began:.0f} s")

    def saw(self, text: str) -> None:
        for line in text.splitlines():
            self._print(f"  - {line}")

    def _print(self, line: str) -> None:
        print(f"{time.monotonic() - self._began:6.0f} s  {line}", flush=True)
