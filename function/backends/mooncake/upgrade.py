"""From one release line to another: never under engines that use the tier, unless on purpose.

Processes of two lines shake hands, and then every write fails: while the stores are replaced one by
one the pool falls apart, and afterwards every engine of the old line is without a cache, with no
error but a growing count of failed calls.
"""

from collections.abc import Mapping

from function.backends.mooncake import facts
from function.backends.mooncake.facts import Tier
from function.contract.image import parse_version
from function.problems import Problem


def problem(tier: Tier, running: Mapping[str, str]) -> Problem | None:
    """Why the tier cannot change in place. `running`: part -> version of Mooncake it runs now."""
    version = facts.image(tier).version
    if version is None or tier.spec.upgrade_policy.type == "Recreate":
        return None
    for part, text in sorted(running.items()):
        now = parse_version(text)
        if now is not None and facts.line(now) != facts.line(version):
            return Problem(
                "spec.image",
                f"would replace Mooncake {now} ({part}) by {version} under the tier's consumers, "
                "and the two lines do not interoperate. Make a second tier and move the consumers "
                "to it, or set spec.upgradePolicy.type to Recreate, which loses what is cached "
                "and leaves engines of the old line without a cache until they are replaced",
            )
    return None
