"""Serve one of Modelplane's functions: a program of its own, since its package is named like ours.

    python tests/modelplane/theirs.py --checkout DIR --function compose-model-replica --address A

compose-model-deployment has one line that only Python 3.12 reads, a function with a type parameter
(semver.py). Under 3.11 it runs from a copy in a temporary folder without that parameter, which has
no effect when a program runs.
"""

import argparse
import re
import shutil
import sys
import tempfile
from pathlib import Path

_TYPE_PARAMETER = re.compile(r"^(def \w+)\[.*\]\(a: T, b: T\)", re.MULTILINE)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--checkout", type=Path, required=True)
    parser.add_argument("--function", required=True, help="a folder of its functions/")
    parser.add_argument("--address", required=True, help="where to serve")
    parser.add_argument("--tls-certs-dir", default="", help="serve by mutual TLS")
    options = parser.parse_args()
    sys.dont_write_bytecode = True
    with tempfile.TemporaryDirectory() as scratch:
        folder = options.checkout / "functions" / options.function
        if sys.version_info < (3, 12):
            folder = _readable(folder, Path(scratch))
        sys.path[:0] = [str(folder), str(options.checkout / "schemas" / "python")]
        from crossplane.function import logging, runtime

        from function import fn

        logging.configure(level=logging.Level.INFO)
        folder = options.tls_certs_dir
        creds = runtime.load_credentials(folder) if folder else None
        runtime.serve(fn.FunctionRunner(), options.address, creds=creds, insecure=not creds)


def _readable(folder: Path, scratch: Path) -> Path:
    """The function as Python 3.11 reads it: the folder itself, or a copy of it."""
    semver = folder / "function" / "semver.py"
    if not semver.is_file():
        return folder
    text, changed = _TYPE_PARAMETER.subn(r"\1(a, b)", semver.read_text())
    if not changed:
        return folder
    shutil.copytree(folder / "function", scratch / "function")
    (scratch / "function" / "semver.py").write_text(text)
    return scratch


if __name__ == "__main__":
    main()
