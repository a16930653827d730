"""Whole tiers and what becomes of them: `specs/NAME.yaml` -> `golden/NAME.yaml`.

`python -m tests.unit.backends.mooncake.golden` writes the goldens anew. A difference means that
agents or engines are rolled by a release: read it, and name it in the changelog.
"""

from dataclasses import asdict
from pathlib import Path
from typing import Any

import yaml

from function.backends.mooncake import BACKEND
from tests.unit.backends.mooncake import sglang, tier, vllm

HERE = Path(__file__).parent
CASES = tuple(sorted(path.stem for path in (HERE / "specs").glob("*.yaml")))
VLLM = vllm(flags={"--tensor-parallel-size": "8"})
SGLANG = sglang(flags={"--tp-size": "8"})


def load(folder: str, case: str) -> Any:
    return yaml.safe_load((HERE / folder / f"{case}.yaml").read_text())


def answer(case: str) -> dict[str, Any]:
    """Everything that the backend says about a case."""
    of = tier(load("specs", case))
    return {
        "problems": [str(p) for p in BACKEND.problems(of)],
        "description": {
            name: list(value) if isinstance(value, tuple) else value
            for name, value in asdict(BACKEND.describe(of)).items()
        },
        "sharesByModelString": BACKEND.shares_by_model_string(of),
        "vllm": BACKEND.inject(of, VLLM).to_json(),
        "sglang": BACKEND.inject(of, SGLANG).to_json(),
        "parts": {part.key: _part(asdict(part)) for part in BACKEND.parts(of)},
    }


def _part(part: dict[str, Any]) -> dict[str, Any]:
    del part["key"]
    return {name: value for name, value in part.items() if value}


class _Dumper(yaml.SafeDumper):
    def ignore_aliases(self, data: Any) -> bool:
        return True


def _text(dumper: yaml.SafeDumper, value: str) -> yaml.Node:
    style = "|" if "\n" in value else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)


_Dumper.add_representer(str, _text)


def main() -> None:
    for case in CASES:
        text = yaml.dump(answer(case), Dumper=_Dumper, sort_keys=False, width=100)
        (HERE / "golden" / f"{case}.yaml").write_text(text)


if __name__ == "__main__":
    main()
