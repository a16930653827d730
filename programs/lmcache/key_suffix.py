import hashlib
import tempfile
import uuid
from pathlib import Path

from ..resolved.vllm import NO_DIGEST, agreed

IDENTITY = "kv_offload.identity"


def key_suffix(vllm_config, role, kv_cache_config):
    """Return the cache identity and a digest of what vLLM resolved in the workers.

    The scheduler's connector is made after theirs, in the same container: a file tells it.
    """
    transfer = vllm_config.kv_transfer_config
    identity = transfer.get_from_extra_config(IDENTITY, None)
    if not identity:
        raise ValueError(f"kv_connector_extra_config has no {IDENTITY}")
    name = hashlib.sha256(str(transfer.engine_id).encode()).hexdigest()[:32]
    file = Path(tempfile.gettempdir(), f"kv-offload-{name}")
    try:
        if role.name == "WORKER":
            digest = agreed(vllm_config, kv_cache_config)
            own = file.with_name(f"{file.name}-{uuid.uuid4().hex}")
            own.write_text(digest)
            own.replace(file)
        digest = file.read_text()
    except OSError as problem:
        raise RuntimeError(f"{NO_DIGEST}{problem}") from problem
    return f"##kv-offload-{identity}-{digest}"
