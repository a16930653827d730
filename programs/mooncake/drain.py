"""Move this store's blocks to the others before it stops: drain.py ADMIN SECONDS CONCURRENCY [REST]

ADMIN: http://HOST:PORT of the master's admin server. SECONDS: when to give up. REST: the store's
own API, where its blocks on disk are to be handed back as well. Never fails: what cannot be moved
is counted, said, and lost.
"""

import json
import os
import sys
import time
import urllib.error
import urllib.request

POLL = 2  # seconds
PATIENCE = 30  # seconds without an answer of the master
DONE = ("SUCCEEDED", "FAILED", "CANCELED", "CANCELLED")


def say(text):
    """To the log of the container, where its main process lets us; a hook's own is thrown away."""
    try:
        with open("/proc/1/fd/1", "w") as log:
            print("drain:", text, file=log, flush=True)
    except OSError:
        print("drain:", text, flush=True)


def ask(url, body=None):
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as error:
        try:
            return json.load(error)
        except ValueError:
            return {"success": False, "error_message": str(error)}


def sort(segments, host):
    """(names of our own segments, whether another takes blocks)."""
    mine = [s["segment_name"] for s in segments if s["segment_name"].rpartition(":")[0] == host]
    return mine, any(s["status"] == "OK" and s["segment_name"] not in mine for s in segments)


def left(job):
    return sum(int(job.get(f"{kind}_units", 0)) for kind in ("blocked", "active", "failed"))


def drain(admin, host, deadline, concurrency):
    job, known, heard, said = None, {}, time.monotonic(), 0.0
    while time.monotonic() < deadline:
        try:
            mine, room = sort(ask(admin + "/get_segments_detail")["segments"], host)
            heard = time.monotonic()
            if not mine:
                return "no segment of this store is registered: nothing to move"
            if job is not None:
                found = ask(f"{admin}/api/v1/drain_jobs/query?job_id={job}")
                # Another master may lead now, and not know the job.
                job, known = (job, found) if found.get("success") else (None, known)
                if job and found.get("status_name") in DONE:
                    break
            if not room:
                return f"no other store takes blocks: {left(known) or 'all'} are lost"
            if job is None:
                body = {"segments": mine, "max_concurrency": concurrency}
                found = ask(admin + "/api/v1/drain_jobs", body)
                job = found.get("job_id") if found.get("success") else None
                say(f"moving {', '.join(mine)}" if job else f"not started: {found}")
        except (OSError, ValueError, KeyError) as error:
            if time.monotonic() - heard > PATIENCE:
                return f"no answer of {admin} ({error}): {left(known) or 'all'} blocks are lost"
        if time.monotonic() - said > 15 and known:
            said = time.monotonic()
            say(f"{known.get('succeeded_units', 0)} blocks moved, {left(known)} to go")
        time.sleep(max(0.0, min(POLL, deadline - time.monotonic())))
    blocks, size = (known.get(key, 0) for key in ("succeeded_units", "migrated_bytes"))
    moved = f"{blocks} blocks, {size} bytes moved"
    if known.get("status_name") in DONE:
        return f"{known['status_name']}: {moved}, {left(known)} are lost"
    return f"out of time: {moved}, {left(known) if known else 'all'} are lost"


def main(admin, seconds, concurrency, rest=""):
    begun = time.monotonic()
    host = os.environ.get("MOONCAKE_LOCAL_HOSTNAME", "")
    try:
        result = drain(admin, host, begun + float(seconds), int(concurrency))
    except Exception as error:
        result = f"{type(error).__name__}: {error}"
    say(f"{result} ({time.monotonic() - begun:.0f} s)")
    if rest:
        try:
            ask(rest + "/api/unmount_local_disk", {"grace_period_seconds": 1})
        except (OSError, ValueError) as error:
            say(f"blocks on disk not handed back: {error}")


if __name__ == "__main__":
    main(*sys.argv[1:])
