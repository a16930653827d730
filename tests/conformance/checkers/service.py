"""A checker: imports an engine once, then answers questions about it, each in a forked child.

Protocol, one JSON object a line. Request `{"id": N, ...}`; answer
`{"id": N, "result": OBJECT|null, "exit_code": INT, "error": STR|null, "log": STR}`.
The child gets the request's `env` on top of the service's own (its PYTHONPATH as a Python that
starts with it) and the request's `argv` as `sys.argv`, so that nothing one request does
(environment, argparse state, `sys.exit`) reaches the next. `log` is all it wrote to stdout and
stderr. The service's own stdout carries answers only.
"""

import contextlib
import importlib
import json
import os
import sys
import tempfile
import traceback
from collections.abc import Callable


def serve(answer: Callable[[dict], dict], warm: dict) -> None:
    """Answer requests from stdin until it ends. `answer` may raise or exit; both are reported.

    `warm` is a first request, answered and thrown away: the modules that answering it imported are
    imported here too, so that later children have them without sharing any state.
    """
    replies = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # engines log to stdout
    for module in _ask(answer, warm)["modules"]:
        with contextlib.suppress(Exception):
            importlib.import_module(module)
    print(json.dumps({"ready": True}), file=replies, flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        said = _ask(answer, request)
        del said["modules"]
        print(json.dumps({"id": request["id"], **said}), file=replies, flush=True)


def _ask(answer: Callable[[dict], dict], request: dict) -> dict:
    with tempfile.TemporaryFile("w+b") as log, tempfile.TemporaryFile("w+b") as reply:
        child = os.fork()
        if child == 0:
            _child(answer, request, log, reply)
        _, status = os.waitpid(child, 0)
        log.seek(0)
        reply.seek(0)
        said = json.loads(reply.read() or b"{}")
        return {
            "result": said.get("result"),
            "exit_code": said.get("exit_code", os.waitstatus_to_exitcode(status)),
            "error": said.get("error"),
            "log": log.read().decode("utf-8", "replace"),
            "modules": said.get("modules", []),
        }


def _child(answer, request, log, reply) -> None:
    os.dup2(log.fileno(), 1)
    os.dup2(log.fileno(), 2)
    os.environ.update(request.get("env") or {})
    sys.argv = list(request.get("argv") or [])
    sys.path[1:1] = (request.get("env") or {}).get("PYTHONPATH", "").split(":")
    known = set(sys.modules)
    try:
        said = {"result": answer(request), "exit_code": 0}
    except SystemExit as stop:
        code = stop.code if isinstance(stop.code, int) else int(stop.code is not None)
        said = {"exit_code": code, "error": f"exit {stop.code}"}
    except BaseException as problem:
        traceback.print_exc()
        said = {"exit_code": 1, "error": f"{type(problem).__name__}: {problem}"}
    said["modules"] = [name for name in sys.modules if name not in known]
    sys.stdout.flush()
    sys.stderr.flush()
    reply.write(json.dumps(said).encode())
    reply.flush()
    os._exit(0)


def plain(value, depth: int = 6):
    """The JSON shape of a configuration object: dataclasses and enums opened, the rest as text."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if depth == 0:
        return repr(value)
    if isinstance(value, dict):
        return {str(key): plain(item, depth - 1) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(item, depth - 1) for item in value]
    if hasattr(value, "model_dump"):
        return plain(value.model_dump(), depth - 1)
    if hasattr(value, "__dataclass_fields__"):
        return {name: plain(getattr(value, name), depth - 1) for name in value.__dataclass_fields__}
    if hasattr(value, "value") and hasattr(type(value), "__members__"):
        return plain(value.value, depth - 1)
    if hasattr(value, "__dict__") and type(value).__module__.startswith(("lmcache.", "vllm.")):
        return plain(vars(value), depth - 1)
    return repr(value)
