"""LMCache's connector for vLLM, with what stands behind a model's name in the key of its blocks.

Upstream's key is tokens, model argument and rank: models at one path read each other's blocks. Here
the name carries the cache identity and what the engine resolved, and a request's salt what else
made its blocks: the LoRA adapter's weights, the prompt's embeddings. From function-kv-offload, for
LMCache 0.5.0 to 0.5.6; docs/identity.md says what is in it.
"""

import hashlib
import uuid
from pathlib import Path

from lmcache.integration.vllm import lmcache_mp_connector as upstream

from ..resolved.weights import fingerprint
from .key_suffix import key_suffix

_PROCESS = uuid.uuid4().hex


class LMCacheMPConnector(upstream.LMCacheMPConnector):
    def __init__(self, vllm_config, role, kv_cache_config=None):
        suffix = key_suffix(vllm_config, role, kv_cache_config)
        super().__init__(vllm_config, role, kv_cache_config)
        self._identity, self._adapters = suffix, {}
        try:
            client = getattr(self, "scheduler_adapter", None) or self.worker_adapter
            client.model_name += suffix
            key = client._create_key([0], start=0, end=1, request_id="")
            fits = key.model_name == client.model_name and key.cache_salt == ""
            fits = fits and callable(super()._get_or_create_request_tracker)
        except (AttributeError, TypeError) as problem:
            raise RuntimeError(_NO_PLACE) from problem
        if not fits:
            raise RuntimeError(_NO_PLACE)

    def register_kv_caches(self, kv_caches):
        """Upstream pings from its first request on, and until then sees no restart of its agent."""
        super().register_kv_caches(kv_caches)
        getattr(self.worker_adapter, "_ensure_heartbeat_started", lambda: None)()

    def _get_or_create_request_tracker(self, request):
        tracker = super()._get_or_create_request_tracker(request)
        own = request.cache_salt or ""
        if tracker.cache_salt == own and (made_by := self._beyond_tokens(request)):
            text = "\0".join((self._identity, own, made_by))
            tracker.cache_salt = "kv-offload-" + hashlib.sha256(text.encode()).hexdigest()[:40]
        return tracker

    def _beyond_tokens(self, request):
        """What made the request's blocks besides identity, salt and tokens; "" for nothing."""
        if getattr(request, "prompt_embeds", None) is not None:
            return request.request_id  # shared with no other request
        adapter = getattr(request, "lora_request", None)
        return adapter and (self._weights(adapter.lora_path) or request.request_id)

    def _weights(self, path):
        """A digest of an adapter's files; "" once they have changed: which are loaded?

        What is no folder here, such as a hub's name, is shared within this process only.
        """
        try:
            files = tuple(sorted(file for file in Path(path).rglob("*") if file.is_file()))
            seen = [(f, s.st_size, s.st_mtime_ns) for f in files for s in (f.stat(),)]
            if files and path not in self._adapters:
                self._adapters[path] = seen, fingerprint(files)
        except OSError:
            return ""
        known, digest = self._adapters.get(path, ([], f"{path} {_PROCESS}"))
        return digest if seen == known else ""


_NO_PLACE = (
    "LMCache in this image keys its blocks in another way than 0.5.0 to 0.5.6 do, and without the "
    "cache identity in the key models would read each other's blocks. Use an image with LMCache "
    "0.5.6, or newer where function-kv-offload knows it."
)
