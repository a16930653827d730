"""Which LMCache an engine's image must hold, beside what the tier runs.

Read in the wheels of lmcache 0.4.4 to 0.5.6: `IPCCacheServerKey.num_kv_readers`, which servers ask
for from 0.5.5 on; the numbers of operations, which 0.5.6 keeps of 0.5.5; 0.5.3 and 0.5.4, whose
protocols and types are equal; the keys of the configuration inside the engine, all of which stand
in 0.4.4. 0.5.6 is what SGLang from 0.5.21 on imports.
"""

from packaging.version import Version

from function.api.engines import SGLANG, VLLM
from function.backends.lmcache import facts
from function.backends.lmcache.facts import Tier
from function.contract.engine import Engine
from function.contract.pairings import Alternative, Pairing
from function.contract.versions import parse

_WHEELS = "the wheels of lmcache 0.4.4 to 0.5.6"
_READERS = Version("0.5.5")
_UNIFIED = Version("0.5.21")

_INSIDE = Pairing(
    "lmcache",
    ">=0.4.4,<0.6",
    "a tier with spec.lmcache.mode InProcess",
    "its configuration is known for no other version",
    _WHEELS,
)
_BEFORE_READERS = Pairing("lmcache", ">=0.5.3,<0.5.5", "an agent of lmcache 0.5.4", "", _WHEELS)


def pairings(tier: Tier, engine: Engine) -> tuple[Pairing, ...]:
    """Return what the image of this engine must hold for this tier."""
    if tier.settings.mode == facts.IN_PROCESS:
        return (_INSIDE,) if engine.name == VLLM else ()
    server = facts.image(tier).version
    wants = f"the tier's agent (lmcache {server})"
    if server is None or server < _READERS:
        why = "others speak another protocol"
        return (Pairing("lmcache", _BEFORE_READERS.fits, wants, why, _WHEELS, "<0.5.3"),)
    return (
        Pairing(
            "lmcache",
            ">=0.5.6,<0.6" if _unified(engine) else ">=0.5.5,<0.6",
            wants,
            "every lookup of an older one misses",
            _WHEELS,
            "<0.6",
        ),
    )


def alternatives(tier: Tier, engine: Engine) -> tuple[Alternative, ...]:
    """Other tiers of LMCache, by what their engines' images must hold."""
    if tier.settings.mode == facts.IN_PROCESS or engine.name != VLLM:
        return ()
    return (
        Alternative(
            "spec.lmcache.ipc SharedMemory and spec.image.tag v0.5.4",
            "LMCacheMPConnector",
            _BEFORE_READERS,
        ),
        Alternative("spec.lmcache.mode InProcess", "LMCacheConnectorV1", _INSIDE),
    )


def _unified(engine: Engine) -> bool:
    version = parse(engine.version)
    return engine.name == SGLANG and (version is None or version >= _UNIFIED)
