"""Wait until one of HOST:PORT... accepts a connection: wait.py HOST:PORT..."""

import signal
import socket
import sys
import time


def open_to(address):
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host, int(port)), 2).close()
    except OSError:
        return False
    return True


# Process 1 ignores a signal that it has no handler for; 0 would start the store.
signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
waited = 0
while not any(open_to(address) for address in sys.argv[1:]):
    if waited % 30 == 0:
        print("waiting for", ", ".join(sys.argv[1:]), flush=True)
    waited += 2
    time.sleep(2)
