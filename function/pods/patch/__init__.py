"""Patching a pod template with an `Injection`: pure, idempotent, and never over the user's own.

`apply()` is the whole interface; every other module here is one concern of it.
"""

from function.pods.patch.apply import apply
from function.pods.patch.security import is_non_root

__all__ = ["apply", "is_non_root"]
