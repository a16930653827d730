"""What crane does not push: blobs and manifests as they are."""

import http.client


def put(address: str, path: str, data: bytes, kind: str) -> None:
    """Write one to a registry that speaks HTTP."""
    connection = http.client.HTTPConnection(address)
    method = "PUT" if "/manifests/" in path else "POST"
    connection.request(method, path, data, {"Content-Type": kind})
    answer = connection.getresponse()
    assert answer.status in (201, 202), answer.read()
    connection.close()
