"""Stage the site: the pages and every file that they link to, below `dist/docs`.

`python -m kv_offload.docs.site` from the repository's root; then `properdocs build`.
"""

import shutil
import sys
from pathlib import Path

from kv_offload.docs.links import pages, targets

STAGE = Path("dist/docs")


def main() -> int:
    root = Path.cwd()
    shutil.rmtree(root / STAGE, ignore_errors=True)
    wanted = set(pages(root))
    for page in list(wanted):
        wanted |= {(page.parent / path).resolve() for path, _ in targets(page) if path}
    for file in wanted:
        to = root / STAGE / file.relative_to(root)
        if file.is_file():
            to.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(file, to)
    return 0


if __name__ == "__main__":
    sys.exit(main())
