"""Checks of a HiCache tier beyond its schema: problems and warnings."""

from collections.abc import Iterator

from function.backends import evictor
from function.backends.hicache import facts
from function.backends.hicache.facts import Tier
from function.backends.hicache.storages import mooncake, raw
from function.problems import Problem
from function.redact import is_credential

_STORAGE = f"{facts.SPEC}.storage"
_RAW = f"{_STORAGE}.raw.extraConfig"
_DYNAMIC = ("backend_name", "module_path", "class_name")
# Keys that are written from fields of the tier.
_OURS = {
    "extra_backend_tag": "the cache identity",
    "prefetch_threshold": "prefetch.thresholdTokens",
    "prefetch_timeout_base": "prefetch.timeoutBaseMillis",
    "prefetch_timeout_per_ki_token": "prefetch.timeoutPerKiTokenMillis",
}


def problems(tier: Tier) -> list[Problem]:
    """Return all problems of the tier, sorted by path."""
    return sorted({problem for subject in _SUBJECTS for problem in subject(tier)})


def _store(tier: Tier) -> Iterator[Problem]:
    found = mooncake.problem(tier)
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
            "is rdma, and spec.rdma.source is None: say how pods get an RDMA device there "
            "(DevicePlugin or DRA), or use tcp",
        )
    if external.rdma_claim_template_name is not None and (
        external.protocol != "rdma" or tier.spec.rdma.source != "DRA"
    ):
        yield Problem(
            f"{where}.rdmaClaimTemplateName",
            "may only be set with protocol rdma and spec.rdma.source DRA",
        )


def _raw(tier: Tier) -> Iterator[Problem]:
    storage = tier.settings.storage
    if storage is None or storage.raw is None:
        return
    try:
        config = raw.configuration(tier)
    except (ValueError, RecursionError):
        yield Problem(_RAW, "must be a JSON object")
        return
    for key in sorted(config):
        if is_credential(key):
            yield Problem(
                f"{_RAW}.{key}",
                "would stand in the pods' arguments: bring it by an environment variable of the "
                "pods, from a Secret",
            )
        elif key in _OURS:
            yield Problem(f"{_RAW}.{key}", f"is written from {_OURS[key]}: remove it")
    if storage.raw.backend == "dynamic":
        for key in _DYNAMIC:
            if not isinstance(config.get(key), str):
                yield Problem(_RAW, f"must have the text {key} for backend dynamic")


_SUBJECTS = (_store, _rdma, _raw)


def warnings(tier: Tier) -> list[str]:
    """Return the warnings about a valid tier, for its Accepted condition."""
    storage = tier.settings.storage
    kind = storage.type if storage is not None else ""
    objects = storage is not None and storage.nixl is not None and storage.nixl.obj is not None
    shared = storage is not None and storage.file is not None and storage.file.claim is not None
    bounded = storage.evictor if storage is not None else None
    evicted = bounded is not None and not bounded.dry_run
    posix = storage is not None and storage.nixl is not None and storage.nixl.posix is not None
    pool = storage.mooncake if storage is not None else None
    rdma = pool is not None and pool.external is not None and pool.external.protocol == "rdma"
    rows = (
        (
            facts.holds_one_identity(tier) and storage is not None and storage.identity is None,
            "spec.hicache.storage.identity is not set: every engine is refused, and told its own.",
        ),
        (objects, "Nothing bounds the bucket: give it a lifecycle rule."),
        (
            shared and not evicted,
            "storage.file.sizeGiB bounds what each pod keeps on the claim, not their sum.",
        ),
        (
            posix,
            "SGLang removes an engine's pages while the volume is fuller than"
            " storage.nixl.posix.highWatermarkPercent, whatever fills it: give the tier a volume of"
            " its own.",
        ),
        (
            (posix or shared) and not evicted,
            "Nothing removes the pages of models that no engine serves any more: remove their"
            " directories on the claim, or ask for storage.evictor.",
        ),
        (bounded is not None and bounded.dry_run, f"storage.{evictor.DRY_RUN_WARNING}"),
        (kind == "HF3FS", "3FS is proven on no cluster by us."),
        (kind == "Raw", "The storage is proven by nobody here: its settings are passed on."),
        (rdma, "RDMA is proven on no device by us."),
    )
    return [text for is_so, text in rows if is_so]
