"""SGLang's storages of HiCache, with a digest of what the engine resolved in the keys of pages.

The digest follows the tag of a storage that has one, or the model's name, which the keys of every
other storage hold but HF3FS's. An engine that cannot compute it stops. From function-kv-offload,
for SGLang 0.5.15 to 0.5.23, which load this plugin; docs/identity.md says what is in it.
"""

from ..resolved.sglang import resolved


def register():
    from sglang.srt.mem_cache.storage.backend_factory import StorageBackendFactory as factory

    create = factory.create_backend

    def keyed(backend_name, storage_config, mem_pool_host, *more, **names):
        from sglang.srt.runtime_context import get_server_args

        digest = resolved(get_server_args(), mem_pool_host)
        extra = storage_config.extra_config or {}
        if tag := extra.get("extra_backend_tag"):
            storage_config.extra_config = {**extra, "extra_backend_tag": f"{tag}-{digest}"}
        else:
            storage_config.model_name = f"{storage_config.model_name or ''}-{digest}"
        try:
            made = create(backend_name, storage_config, mem_pool_host, *more, **names)
        except FileExistsError:  # another stage or engine made the same folder of files
            made = create(backend_name, storage_config, mem_pool_host, *more, **names)
        keys = filter(None, (getattr(made, name, None) for name in _KEYS))
        if not all(digest in key for key in keys):
            raise RuntimeError(_NO_PLACE)
        return made

    factory.create_backend = staticmethod(keyed)


_KEYS = ("config_suffix", "config_prefix", "extra_backend_tag")
_NO_PLACE = (
    "This SGLang keys its pages in another way than 0.5.15 to 0.5.23 do: engines would read each "
    "other's. Use an SGLang that function-kv-offload knows."
)
