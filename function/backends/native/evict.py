"""Evictors of a Native tier: one per level that is files, and their claims."""

from function.api.native import NativeFileSystem, NativeLevel
from function.backends import volumes
from function.backends.evictor import SHARED_PERIOD, BoundedDirectory
from function.backends.native import facts
from function.backends.native.facts import Tier
from function.backends.volumes import Volume
from function.contract.backend import Part
from function.kube import manifests as k


def parts(tier: Tier) -> list[Part]:
    """Return composed claims and the evictors of all volumes."""
    levels = facts.file_systems(tier)
    claims = [_claim(tier, level, files) for level, files in levels if not files.claim.name]
    return [*claims, *volumes.parts(tier, bounded(tier))]


def bounded(tier: Tier) -> list[Volume]:
    """Return the volume of each level that is files."""
    return [
        Volume(
            level.name,
            files.claim.namespace,
            facts.claim(tier, level),
            facts.mount(level),
            BoundedDirectory(
                facts.directory(tier, level),
                files.size_gib,
                SHARED_PERIOD,
                files=files.max_files or 0,
                empties=True,
            ),
            tier.settings.evictor,
            tier.settings.run_as_user,
        )
        for level, files in facts.file_systems(tier)
    ]


def _claim(tier: Tier, level: NativeLevel, files: NativeFileSystem) -> Part:
    meta = k.metadata(facts.claim(tier, level), files.claim.namespace, tier.labels)
    spec = k.claim(files.claim.storage_class_name, files.size_gib, "ReadWriteMany")
    manifest = k.persistent_volume_claim(meta, spec)
    key = f"persistentvolumeclaim-{level.name}"
    return Part(key, manifest, keep=True, namespace_override=files.claim.namespace)
