"""The program of the payload image, as its init container runs it."""

import subprocess
import sys
from pathlib import Path

PROGRAM = Path(__file__).parents[3] / "programs" / "payload.py"


def run(tmp_path, *names):
    """Run it with `tmp_path/payload` in place of /payload."""
    text = PROGRAM.read_text().replace('Path("/payload")', f"Path({str(tmp_path / 'payload')!r})")
    program = tmp_path / "payload.py"
    program.write_text(text)
    arguments = ["registry/x:1", str(tmp_path / "volume"), *names]
    return subprocess.run(
        [sys.executable, "-I", program, *arguments], capture_output=True, text=True
    )


def made(tmp_path):
    folder = tmp_path / "payload" / "lmcache-0.5.6" / "lmcache"
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text("__version__ = '0.5.6'\n")
    (tmp_path / "volume").mkdir()
    return tmp_path / "volume"


def test_a_package_is_copied_whole(tmp_path):
    volume = made(tmp_path)
    (volume / ".lmcache-0.5.6.partial").mkdir()  # of a run that the kubelet ended
    done = run(tmp_path, "lmcache-0.5.6")
    assert done.returncode == 0, done.stderr
    assert [path.name for path in volume.iterdir()] == ["lmcache-0.5.6"]
    assert (volume / "lmcache-0.5.6/lmcache/__init__.py").exists()


def test_a_second_run_leaves_what_is_there(tmp_path):
    volume = made(tmp_path)
    run(tmp_path, "lmcache-0.5.6")
    (volume / "lmcache-0.5.6" / "kept").touch()
    assert run(tmp_path, "lmcache-0.5.6").returncode == 0
    assert (volume / "lmcache-0.5.6" / "kept").exists()


def test_an_image_of_another_release_says_what_it_holds(tmp_path):
    made(tmp_path)
    done = run(tmp_path, "lmcache-0.5.7")
    assert done.returncode == 1
    assert "registry/x:1 holds no lmcache-0.5.7 (it holds lmcache-0.5.6)" in done.stderr
    assert "spec.payload" in done.stderr


def test_a_volume_that_cannot_be_written_is_named(tmp_path):
    made(tmp_path)
    (tmp_path / "volume").rmdir()
    (tmp_path / "volume").write_text("")
    done = run(tmp_path, "lmcache-0.5.6")
    assert done.returncode == 1
    assert "lmcache-0.5.6 cannot be copied from registry/x:1" in done.stderr
