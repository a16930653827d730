"""What an LMCache tier encrypts below its memory, by LMCache's own serde: written and read back."""

import json
import os
import subprocess
from pathlib import Path

from tests.conformance.envs import environment
from tests.unit.backends.lmcache import agents_pod

# The emitted serde, a master key, and another: what comes back, and from whom it does not.
_SERDE = """
import json, os, sys
from types import SimpleNamespace as Plain
from lmcache.v1.distributed.serde.base import Deserializer, SerdeConfig, Serializer
from lmcache.v1.distributed.serde.factory import create_serde_processor
import lmcache.v1.distributed.serde

told, keys = json.loads(sys.argv[1]), sys.argv[2:]
def serde_pair(key):
    kwargs = {k: v for k, v in told.items() if k != "type"} | {"master_key_path": key}
    made = vars(create_serde_processor(SerdeConfig(told["type"], kwargs))).values()
    return (next(v for v in made if isinstance(v, kind)) for kind in (Serializer, Deserializer))

block = Plain(byte_array=bytearray(os.urandom(1 << 20)))
stored = Plain(byte_array=bytearray((1 << 20) + 64))
key, other = Plain(cache_salt="a"), Plain(cache_salt="b")
write, read = serde_pair(keys[0])
size = write.serialize(block, stored, key)
said = {"size": size, "hidden": bytes(block.byte_array[:64]) not in bytes(stored.byte_array)}
back = Plain(byte_array=bytearray(1 << 20))
read.deserialize(stored, back, key)
said["same"] = back.byte_array == block.byte_array
def fails(reader, of):
    try:
        reader.deserialize(of, Plain(byte_array=bytearray(1 << 20)), key)
    except Exception as problem:
        return type(problem).__name__
    return ""
_, stranger = serde_pair(keys[1])
torn = Plain(byte_array=bytearray(stored.byte_array))
torn.byte_array[5000] ^= 1
said["stranger"], said["torn"] = fails(stranger, stored), fails(read, torn)
write.serialize(block, stored, other)
said["salt"] = fails(read, stored)
print(json.dumps(said), flush=True)
os._exit(0)
"""


def test_encrypted_blocks_need_the_key(tmp_path: Path) -> None:
    serde = {"type": "AESGCM", "aesgcm": {"keySecret": {"name": "kv", "key": "key"}}}
    disk = {"sizeGiB": 10, "hostPath": {"path": "/mnt/kv"}}
    level = {"name": "nvme", "type": "Disk", "disk": disk, "serde": serde}
    pod = agents_pod({"lmcache": {"l1": {"sizeGiB": 1}, "l2": [level]}})
    args = pod["containers"][0]["args"]
    told = json.loads(args[args.index("--l2-adapter") + 1])["serde"]
    mounts = {m["mountPath"] for m in pod["containers"][0]["volumeMounts"]}
    assert str(Path(told["master_key_path"]).parent) in mounts
    keys = [tmp_path / name for name in ("key", "other")]
    for file in keys:
        file.write_bytes(os.urandom(32))
    ran = subprocess.run(
        [environment("vllm").python, "-c", _SERDE, json.dumps(told), *map(str, keys)],
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr[-2000:]
    assert json.loads(ran.stdout.splitlines()[-1]) == {
        "size": (1 << 20) + 29,
        "hidden": True,
        "same": True,
        "stranger": "InvalidTag",
        "torn": "InvalidTag",
        "salt": "InvalidTag",
    }
