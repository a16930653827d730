"""Checks of a HiCache tier beyond its schema: problems and warnings."""

from collections.abc import Iterator

from function.backends import evictor
from function.backends.hicache import facts, mooncake_pool, storages
from function.backends.hicache.facts import Tier
from function.contract import namespaces
from function.problems import Problem
from function.redact import is_credential

_STORAGE = f"{facts.SPEC}.storage"
_RAW = f"{_STORAGE}.raw.extraConfig"
_DYNAMIC = ("backend_name", "module_path", "class_name")
# Keys that are written from fields of the tier.
_OWNED = {
    "extra_backend_tag": "the cache identity",
    "prefetch_threshold": "prefetch.thresholdTokens",
    "prefetch_timeout_base": "prefetch.timeoutBaseMillis",
    "prefetch_timeout_per_ki_token": "prefetch.timeoutPerKiTokenMillis",
}


def problems(tier: Tier) -> list[Problem]:
    """Return all problems of the tier, sorted by path."""
    return sorted({problem for subject in _SUBJECTS for problem in subject(tier)})


def _store(tier: Tier) -> Iterator[Problem]:
    found = mooncake_pool.problem(tier)
    if found is not None:
        yield Problem(*found)


def _rdma(tier: Tier) -> Iterator[Problem]:
    storage = tier.settings.storage
    pool = storage.mooncake if storage is not None else None
    external = pool.external if pool is not None else None
    if external is None:
        return
    where = f"{_STORAGE}.mooncake.external"
    if external.protocol == "rdma" and tier.spec.rdma.source == "None":
        yield Problem(
            f"{where}.protocol",
            "is rdma, but spec.rdma.source is None: set it to DevicePlugin or DRA, or use tcp",
        )
    if external.rdma_claim_template_name is not None and (
        external.protocol != "rdma" or tier.spec.rdma.source != "DRA"
    ):
        yield Problem(
            f"{where}.rdmaClaimTemplateName",
            "may only be set with protocol rdma and spec.rdma.source DRA",
        )


def _namespace(tier: Tier) -> Iterator[Problem]:
    storage = tier.settings.storage
    if storage is not None and storage.evictor is not None:
        where = f"{_STORAGE}.evictor.namespace"
        yield from namespaces.claim_problems(tier, storage.evictor.namespace, where)


def _raw(tier: Tier) -> Iterator[Problem]:
    storage = tier.settings.storage
    if storage is None or storage.raw is None:
        return
    try:
        config = storages.configuration(tier)
    except (ValueError, RecursionError):
        yield Problem(_RAW, "must be a JSON object")
        return
    for key in sorted(config):
        if is_credential(key):
            yield Problem(
                f"{_RAW}.{key}",
                "would be in an argument, visible to all who may read pods (CredentialInArgv). Set "
                "it by an environment variable from a Secret",
            )
        elif key in _OWNED:
            yield Problem(f"{_RAW}.{key}", f"is set from {_OWNED[key]}: remove it")
    if storage.raw.backend == "dynamic":
        for key in _DYNAMIC:
            if not isinstance(config.get(key), str):
                yield Problem(_RAW, f"must have the string {key} with backend dynamic")


_SUBJECTS = (_store, _rdma, _namespace, _raw)


def warnings(tier: Tier) -> Iterator[str]:
    """Yield the warnings about a valid tier, for its Accepted condition."""
    storage = tier.settings.storage
    if storage is None:
        return
    posix = storage.nixl is not None and storage.nixl.posix is not None
    shared = storage.file is not None and storage.file.claim is not None
    evicted = storage.evictor is not None and not storage.evictor.dry_run
    external = storage.mooncake.external if storage.mooncake is not None else None
    if facts.holds_one_identity(tier) and storage.identity is None:
        yield (
            "spec.hicache.storage.identity is not set: every engine is refused, with its own "
            "identity in the message."
        )
    if storage.nixl is not None and storage.nixl.obj is not None:
        yield "Nothing bounds the bucket: give it a lifecycle rule."
    if shared and not evicted:
        yield "storage.file.sizeGiB bounds the pages of each pod on the claim, not their sum."
    if posix:
        yield (
            "SGLang removes pages while the volume is fuller than "
            "storage.nixl.posix.highWatermarkPercent, whatever fills it: give the tier a volume of "
            "its own."
        )
    if (posix or shared) and not evicted:
        yield (
            "Nothing removes the pages of models that are no longer served: delete their "
            "directories on the claim, or set storage.evictor."
        )
    if storage.evictor is not None and storage.evictor.dry_run:
        yield f"storage.{evictor.DRY_RUN_WARNING}"
    if storage.type == "HF3FS":
        yield "3FS is not yet tested on a cluster."
    if storage.type == "Raw":
        yield "This storage is not tested: its settings are passed on unchanged."
    if external is not None and external.protocol == "rdma":
        yield "RDMA is not yet tested on a device."
