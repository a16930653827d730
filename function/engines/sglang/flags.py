"""SGLang's flags, and which of them determine a cached block (facts.yaml)."""

from pathlib import Path

from function.engines.kind import IdentityInputs
from function.engines.scan import FlagGroup, Options
from function.facts import Table

FACTS = Path(__file__).with_name("facts.yaml")
TABLE = Options(Table(FlagGroup, FACTS, "options"))
IDENTITY = Table(IdentityInputs, FACTS, "identity")
