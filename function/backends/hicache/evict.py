"""The evictor of files on a claim, if the tier asks for one.

SGLang treats a removed page as a miss and writes it again, but creates a directory only when it
starts: empty ones stay.
"""

from function.backends import volumes
from function.backends.evictor import SHARED_PERIOD, BoundedDirectory
from function.backends.hicache import facts
from function.backends.hicache.facts import Tier
from function.backends.volumes import Volume
from function.contract.backend import Part


def parts(tier: Tier) -> list[Part]:
    """Return the evictor of the volume, if the tier asks for one."""
    return volumes.parts(tier, bounded(tier))


def bounded(tier: Tier) -> list[Volume]:
    """Return the storage's volume with the tier's directory of all identities."""
    storage = tier.settings.storage
    settings = storage.evictor if storage is not None else None
    claim = facts.claim(tier)
    if settings is None or claim is None:
        return []
    place, most = facts.directory(tier), settings.max_files or 0
    directory = BoundedDirectory(place, settings.size_gib, SHARED_PERIOD, files=most)
    user = settings.run_as_user
    return [Volume("pages", settings.namespace, claim, facts.SHARED, directory, settings, user)]
