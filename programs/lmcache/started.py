"""Exit 0 when this container sees a GPU and its server answers: started.py PORT PATH."""

import ctypes
import http.client
import os
import sys


def trouble_with_gpus() -> str:
    """Why the driver shows no GPU here, empty if it does."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
        count = ctypes.c_int(0)
        code = driver.cuInit(0) or driver.cuDeviceGetCount(ctypes.byref(count))
    except (OSError, AttributeError) as problem:
        return f"no NVIDIA driver: {problem}"
    if code:
        return f"the NVIDIA driver answers with error {code}"
    return "" if count.value else "the NVIDIA driver shows none"


def trouble_with_server(port: int, path: str) -> str:
    """Why the server is not up yet, empty if it is."""
    try:
        connection = http.client.HTTPConnection(os.environ["POD_IP"], port, timeout=5)
        connection.request("GET", path)
        status = connection.getresponse().status
    except (OSError, http.client.HTTPException) as problem:
        return str(problem) or type(problem).__name__
    return "" if status == 200 else f"{path} answers {status}"


def main(arguments: list[str]) -> int:
    port, path = arguments
    if problem := trouble_with_gpus():
        print(f"no GPU is visible in this container ({problem}): see spec.gpuVisibility")
        return 1
    if problem := trouble_with_server(int(port), path):
        print(f"the server is not up yet: {problem}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
