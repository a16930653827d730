"""Which models it serves: all that have a prefix."""

from function.api.engines import VLLM
from function.backends.sixth.gate import ROW
from function.contract.models.sentences import no_prefix
from function.contract.models.support import FamilyRow

MODELS: tuple[FamilyRow, ...] = tuple(no_prefix(ROW, VLLM))
