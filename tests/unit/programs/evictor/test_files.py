"""Facts about files and their mounts."""

from pathlib import Path

import pytest

from programs.evictor.files import mount_of, temporary

MOUNTS = """\
22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/root rw
30 22 0:27 / /mnt/kv rw,noatime - xfs /dev/nvme0n1 rw
31 22 0:28 / /mnt/my\\040disk rw,nosuid,relatime master:5 - nfs4 srv:/x rw,vers=4.1
32 30 0:29 / /mnt/kv/deep rw - tmpfs tmpfs rw
"""


@pytest.mark.parametrize(
    ("path", "kind", "options"),
    [
        ("/mnt/kvx", "ext4", {"rw", "relatime"}),
        ("/mnt/kv", "xfs", {"rw", "noatime"}),
        ("/mnt/kv/tier/a", "xfs", {"rw", "noatime"}),
        ("/mnt/kv/deep/a", "tmpfs", {"rw"}),
        ("/mnt/my disk/a", "nfs4", {"rw", "nosuid", "relatime"}),
    ],
)
def test_mount_of_a_directory(tmp_path: Path, path: str, kind: str, options: set[str]) -> None:
    table = tmp_path / "mountinfo"
    table.write_text(MOUNTS)
    assert mount_of(path, str(table)) == (kind, options)


def test_missing_mountinfo_gives_no_mount() -> None:
    assert mount_of("/x", "/nowhere/mountinfo") == ("", set())


@pytest.mark.parametrize(
    ("name", "is_it"),
    [
        ("0a1b.bin", False),
        ("0a1b.bin_81726354.tmp", True),  # vLLM, before it renames
        (".o_direct_probe_81726354.tmp", True),  # vLLM, at its start
        (".o_direct_probe", True),
        ("m@1@0@ab.data", False),
        ("m@1@0@ab.tmp", True),  # LMCache's fs and fs_native
        ("config.json", False),
    ],
)
def test_temporary_files_are_recognised(name: str, is_it: bool) -> None:
    assert temporary(name) is is_it
