"""A storage of SGLang's that the tier has no fields for: as it is written."""

import json

from function.api.base import present
from function.backends.hicache import facts
from function.backends.hicache.facts import Tier
from function.backends.hierarchy import Storage
from function.contract.engine import Engine
from function.contract.injection import Json


def configuration(tier: Tier) -> Json:
    """The object that the tier's text is. Raises ValueError for a text that is none."""
    found = json.loads(present(present(tier.settings.storage).raw).extra_config)
    if not isinstance(found, dict):
        raise ValueError("must be a JSON object")
    return found


def storage(tier: Tier, engine: Engine) -> Storage:
    """The tier's own words, and the tag where the storage's keys have a place for one."""
    backend = present(present(tier.settings.storage).raw).backend
    extra = configuration(tier)
    if backend in facts.TAGGED:
        extra["extra_backend_tag"] = facts.pages(tier, engine)
    return Storage(backend, extra)
