"""Python clients of the checkers: the engines' own truth about a command line or a file.

    with VllmParser() as vllm:
        parsed = vllm.parse(["vllm", "serve", "model", ...], env={"PYTORCH_ALLOC_CONF": "..."})
        parsed.result["kv_transfer_config"]["kv_connector"]

A client starts its service on the first question (10 to 20 s of imports) and then takes some
tenths of a second for each. One question at a time.
"""

import json
import os
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from tests.conformance.envs import environment, environment_with

CHECKERS = Path(__file__).parent / "checkers"


class CheckerFailed(Exception):
    """The service itself failed; the message has its log."""


@dataclass(frozen=True)
class Parsed:
    """`result` is None unless the engine would have started; its shape is the checker's.

    `exit_code` and `error` are the engine's own; `log` is all that it printed on the way.
    """

    result: dict[str, Any] | None
    exit_code: int
    error: str | None
    log: str

    @property
    def ok(self) -> bool:
        return self.result is not None

    @property
    def warnings(self) -> list[str]:
        """The lines of the log that warn."""
        return [line for line in self.log.splitlines() if "WARN" in line.upper()]


class _Checker:
    """`levels`: with the clients of LMCache's levels, without which it does not know some types."""

    environment: ClassVar[str]
    script: ClassVar[str]
    levels: ClassVar[bool] = False

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None
        self._log = tempfile.TemporaryFile("w+")  # noqa: SIM115 - as long as the client
        self._asked = 0

    def __enter__(self):
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the service; a later question starts another."""
        if self._process is not None:
            self._process.stdin.close()
            self._process.wait(timeout=30)
            self._process.stdout.close()
            self._process = None

    def _start(self) -> subprocess.Popen[str]:
        more = {"PYTHONPATH": str(environment_with("levels").packages)} if self.levels else {}
        self._process = subprocess.Popen(
            [environment(self.environment).python, CHECKERS / self.script],
            env={**os.environ, **more},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
        )
        self._read()  # {"ready": true}, or it ended while importing
        return self._process

    def _read(self) -> dict[str, Any]:
        line = self._process.stdout.readline()
        if not line:
            self._process.wait(timeout=30)
            self._process = None
            self._log.seek(0)
            raise CheckerFailed(f"{self.script} ended:\n{self._log.read()[-4000:]}")
        return json.loads(line)

    def _ask(self, **request: Any) -> Parsed:
        process = self._process or self._start()
        self._asked += 1
        process.stdin.write(json.dumps({"id": self._asked, **request}) + "\n")
        process.stdin.flush()
        said = self._read()
        return Parsed(said["result"], said["exit_code"], said["error"], said["log"])


class _Arguments(_Checker):
    def parse(self, argv: Sequence[str], env: Mapping[str, str] | None = None) -> Parsed:
        return self._ask(argv=list(argv), env=dict(env or {}))

    def options(self) -> list[list[Any]]:
        """The flags of the engine's own parser (checkers/options)."""
        said = self._ask(kind="options", argv=[self.environment])
        if not said.ok:
            raise CheckerFailed(f"{self.script}: {said.error}\n{said.log}")
        return said.result["options"]


class VllmParser(_Arguments):
    """vLLM 0.33.0's main, parser, engine arguments and connector registry (checkers/vllm_parser)"""

    environment = "vllm"
    script = "vllm_parser.py"


class SglangArgs(_Arguments):
    """SGLang 0.5.23's parser, resolution and checks, as on a CUDA machine (checkers/sglang_args)"""

    environment = "sglang"
    script = "sglang_args.py"


class HicacheStorage(_Checker):
    """SGLang 0.5.23's storages of HiCache on a real host pool (checkers/hicache_storage)"""

    environment = "sglang"
    script = "hicache_storage.py"

    def run(self, storage: str, steps: Sequence[Sequence[Any]], **request: Any) -> Parsed:
        """One process of an engine: `steps` one after another, on pages of its own host pool."""
        return self._ask(storage=storage, do=list(steps), **request)

    def ranks(self, models: Sequence[str], **request: Any) -> Parsed:
        """A process for each rank of an engine, with these models at its path."""
        return self._ask(engine=list(models), **request)


class LmcacheConfig(_Checker):
    """LMCache 0.5.6's configuration classes (checkers/lmcache_config)"""

    environment = "vllm"
    script = "lmcache_config.py"
    levels = True

    def server(self, argv: Sequence[str], env: Mapping[str, str] | None = None) -> Parsed:
        """What `lmcache server ...` would run with."""
        return self._ask(kind="server", argv=list(argv), env=dict(env or {}))

    def inprocess(self, text: str, env: Mapping[str, str] | None = None) -> Parsed:
        """What LMCacheConnectorV1 would read from this YAML (LMCACHE_CONFIG_FILE)."""
        with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
            file.write(text)
            file.flush()
            return self._ask(
                kind="inprocess", env={"LMCACHE_CONFIG_FILE": file.name, **(env or {})}
            )
