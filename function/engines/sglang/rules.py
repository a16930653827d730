"""What SGLang's KV offload excludes: flag against flag, whichever tier brings them (facts.yaml)."""

from collections.abc import Mapping
from dataclasses import dataclass

from function.contract.conditions import FlagCondition
from function.engines.sglang.flags import FACTS
from function.facts import Table

Flags = Mapping[str, str | None]


@dataclass(frozen=True)
class Rule:
    """Things that do not go together; all of `when` hold on the flags as they would end up.

    `fatal`: SGLang stops, or gives up the offload without a word; else it only rewrites a value.
    """

    about: str
    when: tuple[FlagCondition, ...]
    source: str
    fatal: bool = True

    def holds(self, flags: Flags) -> bool:
        """Return whether the rule forbids these flags."""
        return all(condition.find(flags) for condition in self.when)


RULES = Table(Rule, FACTS, "rules")
