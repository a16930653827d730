"""Render examples through Crossplane's own engine, printed by the canonical emitter.

    python -m tests.render.example example/lmcache/tier.yaml..

What `make render ENGINE=crossplane` runs; the same bytes as `make render`.
"""

import sys
from pathlib import Path

from kv_offload.render import emit, files
from tests.render import engines, run
from tests.render.case import Case, Pass
from tests.tools.find import ToolsMissing


def main(arguments: list[str]) -> int:
    if not arguments:
        print(__doc__, file=sys.stderr)
        return 2
    return max(_render(Path(argument)) for argument in arguments)


def _render(path: Path) -> int:
    xr = files.load_one(path, "composite")
    example = Case(path.parent, xr, False, False, False, (Pass(""),))
    try:
        with run.crossplane(example.functions) as engine:
            answer = engine(example, example.passes[0], engines.State(xr))
    except ToolsMissing as missing:
        print(missing, file=sys.stderr)
        return 1
    print(emit.to_yaml(answer.documents), end="")
    return int(answer.failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
