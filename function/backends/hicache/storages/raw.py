"""Another storage of SGLang, with the tier's own configuration."""

import json

from function.api.base import present
from function.backends.hicache import facts
from function.backends.hicache.facts import Tier
from function.backends.hierarchy import Storage
from function.contract.engine import Engine
from function.contract.injection import Json


def configuration(tier: Tier) -> Json:
    """Return the tier's JSON object. Raise ValueError for any other text."""
    found = json.loads(present(present(tier.settings.storage).raw).extra_config)
    if not isinstance(found, dict):
        raise ValueError("must be a JSON object")
    return found


def storage(tier: Tier, engine: Engine) -> Storage:
    """Return the tier's configuration, with the tag if the keys have a place for it."""
    backend = present(present(tier.settings.storage).raw).backend
    extra = configuration(tier)
    if backend in facts.TAGGED:
        extra["extra_backend_tag"] = facts.pages(tier, engine)
    return Storage(backend, extra)
