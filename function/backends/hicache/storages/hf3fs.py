"""Storage `hf3fs`: one file per rank on 3FS, with a metadata server.

The server keys a page by its tokens and rank alone: it must serve one identity. Without a server
every pod assigns the pages of the one file itself, and overwrites the others'.
"""

import json

from function.api.base import present
from function.backends.hicache import facts
from function.backends.hicache.facts import Tier
from function.backends.hicache.storages import directory
from function.backends.hierarchy import Storage
from function.contract.engine import Engine
from function.contract.injection import Json
from function.kube.naming import file_name


def storage(tier: Tier, engine: Engine) -> Storage:
    """Return the storage; SGLang reads a file, and stops without the server."""
    settings = present(present(tier.settings.storage).hf3fs)
    config = {
        "file_path_prefix": f"{facts.SHARED}/{tier.remote_name}-{facts.pages(tier, engine)}",
        "file_size": settings.file_size_gib * facts.GIB,
        "numjobs": settings.threads,
        "entries": settings.entries,
        "metadata_server_url": f"http://{address(tier)}",
    }
    text = json.dumps(config, indent=2) + "\n"
    file = file_name("hf3fs", text, "json")
    pod: Json = {
        "env": ({"name": "SGLANG_HICACHE_HF3FS_CONFIG_PATH", "value": f"{facts.FILES}/{file}"},),
        "files": {file: text},
        "files_path": facts.FILES,
        "volumes": (directory.claimed(settings.claim),),
        "mounts": (directory.mounted(facts.SHARED),),
    }
    seconds = present(tier.settings.storage).wait_seconds
    if seconds:
        pod["waits"] = ({"name": facts.AWAIT, "addresses": [address(tier)], "seconds": seconds},)
    return Storage("hf3fs", {}, pod)


def address(tier: Tier) -> str:
    """Return HOST:PORT of the metadata server."""
    settings = present(present(tier.settings.storage).hf3fs)
    return f"{settings.metadata_host}:{settings.metadata_port}"
