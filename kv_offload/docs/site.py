"""Stage the site: the pages and every file that they link to, below `dist/docs`.

`python -m kv_offload.docs.site` from the repository's root; then `properdocs build`.
"""

import re
import shutil
import sys
from pathlib import Path

from kv_offload.docs.links import pages, targets

STAGE = Path("dist/docs")
# In a table GitHub reads `a\|b` as a|b; the site's Markdown would keep the backslash.
_PIPES = re.compile(r"`([^`\n]*\\\|[^`\n]*)`")


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
            if to.suffix == ".md":
                to.write_text(_PIPES.sub(_code, to.read_text()))
    return 0


def _code(match: re.Match[str]) -> str:
    plain = match[1].replace("\\|", "|")
    return f"<code>{''.join(c if c.isalnum() else f'&#{ord(c)};' for c in plain)}</code>"


if __name__ == "__main__":
    sys.exit(main())
