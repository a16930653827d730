"""Hears an engine's KV events as a router does; run by the Python of an engine's environment.

    listen.py ENDPOINT TOPIC_FILTER    from now on, until it is ended
    listen.py --replay ENDPOINT        all that the engine still has, from the first one on

Each batch is a line: {"topic", "number", "events"}; hashes are hexadecimal.
"""

import json
import sys

import msgspec
import zmq

END = (-1).to_bytes(8, "big", signed=True)


def _say(topic: str, number: bytes, payload: bytes) -> None:
    # [time, events, rank]; each event is a map, as vLLM writes them from 0.26 on.
    _, events, *_ = msgspec.msgpack.decode(payload)
    said = {"topic": topic, "number": int.from_bytes(number, "big"), "events": events}
    print(json.dumps(said, default=bytes.hex), flush=True)


def listen(endpoint: str, topics: str) -> None:
    heard = zmq.Context.instance().socket(zmq.SUB)
    heard.connect(endpoint)
    heard.setsockopt_string(zmq.SUBSCRIBE, topics)
    while True:
        topic, number, payload = heard.recv_multipart()
        _say(topic.decode(), number, payload)


def replay(endpoint: str) -> None:
    asked = zmq.Context.instance().socket(zmq.DEALER)
    asked.connect(endpoint)
    asked.send_multipart([b"", (0).to_bytes(8, "big")])
    while True:
        *_, number, payload = asked.recv_multipart()
        if number == END:
            return
        _say("", number, payload)


if __name__ == "__main__":
    if sys.argv[1] == "--replay":
        replay(sys.argv[2])
    else:
        listen(sys.argv[1], sys.argv[2])
