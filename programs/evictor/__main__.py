"""The worker: one thread walks, another keeps the leases."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import signal
import sys
import threading

from .directory import Directory, Stopped, say
from .serve import serve

LOOK = 60  # seconds between two looks at the program's own text
HERE = os.path.dirname(os.path.abspath(__file__))


def main(arguments: list[str]) -> int:
    """Work until SIGTERM. The configuration's keys: `directories`, each with the fields of
    `Directory`; `defaults`: fields for all of them; `port` of the metrics, 0 for none."""
    config = json.loads(arguments[0])
    stop = until_told()
    defaults = config.get("defaults", {})
    directories = [Directory(stop=stop, **{**defaults, **row}) for row in config["directories"]]
    if config.get("port"):
        serve(config["port"], directories)
    begun = program()
    keeper = threading.Thread(target=keep, args=(directories, stop), daemon=True)
    keeper.start()
    ticks, told = 0, [""] * len(directories)
    while not stop.wait(1.0):
        for row, directory in enumerate(directories):
            turn(directory)
            if directory.ails != told[row]:
                told[row] = directory.ails
                say(f"{directory.path}: {directory.ails or 'works again'}")
        ticks += 1
        if not keeper.is_alive():
            return 1  # what it died of is in the log
        if ticks % LOOK == 0 and program() not in ({}, begun):
            break  # the ConfigMap has another text
    again = not stop.is_set()
    stop.set()
    for directory in directories:
        directory.lease.release()
    if again:
        os.execv(sys.executable, [sys.executable, "-m", os.path.basename(HERE), *arguments])
    return 0


def until_told() -> threading.Event:
    """Return what SIGTERM and SIGINT set. A handler would run in a thread that may hold the
    event's lock, and wait for it for ever: a thread of its own takes the signals."""
    told, signals = threading.Event(), {signal.SIGTERM, signal.SIGINT}
    signal.pthread_sigmask(signal.SIG_BLOCK, signals)  # in each thread that is begun later too

    def take() -> None:
        signal.sigwait(signals)
        told.set()

    threading.Thread(target=take, daemon=True).start()
    return told


def turn(directory: Directory) -> None:
    """One round; what goes wrong with it is the directory's problem."""
    try:
        directory.turn()
    except Stopped:
        pass
    except FileNotFoundError:
        directory.problem = ""  # nobody has written anything yet
    except OSError as error:
        directory.problem = str(error)


def keep(directories: list[Directory], stop: threading.Event) -> None:
    """Win and keep the leases, however long a walk takes."""
    while not stop.is_set():
        for directory in directories:
            lease = directory.lease
            try:
                lease.step()
                lease.problem = ""
            except Exception as error:  # whatever somebody put there: the next step may do
                lease.problem = f"cannot elect a worker: {error}"
                if getattr(error, "errno", None) in (errno.ENOSPC, errno.EDQUOT):
                    directory.make_room()
        stop.wait(min(directory.lease.seconds for directory in directories) / 4)


def program() -> dict[str, str]:
    """The program's own text, by file; {} where it cannot be read as a whole."""
    found = {}
    with contextlib.suppress(OSError):
        for name in sorted(os.listdir(HERE)):
            if name.endswith(".py"):
                with open(os.path.join(HERE, name), encoding="utf-8") as file:
                    found[name] = file.read()
        return found
    return {}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
