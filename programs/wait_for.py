"""Wait until one of ADDRESS... answers: wait_for.py SECONDS ADDRESS...

HOST:PORT accepts a connection. HOST resolves, as a headless Service does
once a pod is ready.
"""

import signal
import socket
import sys
import time


def refusal(address: str) -> str:
    host, colon, port = address.rpartition(":")
    try:
        if not colon:
            socket.getaddrinfo(address, None)
            return ""
        socket.create_connection((host.strip("[]"), int(port)), 2).close()
    except OSError as problem:
        return f"{address}: {problem}"
    return ""


def main(seconds: int, addresses: list[str]) -> None:
    # Process 1 ignores a signal that it has no handler for.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    started = said = time.monotonic()
    print("waiting for", ", ".join(addresses), flush=True)
    while True:
        refusals = [refusal(address) for address in addresses]
        if "" in refusals:
            return
        now = time.monotonic()
        if now - started >= seconds:
            sys.exit(f"The store did not answer within {seconds} s: {'; '.join(refusals)}")
        if now - said >= 30:
            said = now
            print("still waiting:", "; ".join(refusals), flush=True)
        time.sleep(2)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
