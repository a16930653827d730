"""A new release of an engine with nothing changed is a row in one data file, and its pages."""

import shutil
import subprocess
import sys
from pathlib import Path

from function.contract.versions import ceiling, releases
from function.facts import FOLDER

ROOT = Path(__file__).parents[3]
NEWEST, NEXT = releases("vLLM")[-1].version, f"{ceiling('vLLM')}.0"
TRY = """
import sys
from pathlib import Path
from function import facts
from function.api import packages  # looks for backends' facts beside the folder
facts.FOLDER = Path(sys.argv[1])
from function.contract.versions import known_versions
from kv_offload import docs
print(known_versions("vLLM")[-1], *sorted(docs.drift(Path.cwd())))
"""


def test_new_release_changes_one_file_and_its_pages(tmp_path: Path) -> None:
    folder = tmp_path / "facts"
    shutil.copytree(FOLDER, folder)
    lines = (folder / "vllm.yaml").read_text().splitlines(keepends=True)
    (at,) = [i for i, line in enumerate(lines) if line.startswith(f"- {{version: {NEWEST},")]
    lines.insert(at + 1, lines[at].replace(NEWEST, NEXT))
    text = "".join(lines).replace(f"newest: {NEWEST}", f"newest: {NEXT}")
    (folder / "vllm.yaml").write_text(text)
    done = subprocess.run(
        [sys.executable, "-c", TRY, str(folder)], cwd=ROOT, text=True, capture_output=True
    )
    assert done.returncode == 0, done.stderr
    newest, *pages = done.stdout.split()
    assert newest == NEXT
    assert pages == ["docs/images.md", "docs/support.md", "docs/versions.md"]
