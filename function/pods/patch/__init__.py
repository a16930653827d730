"""Patching a pod template with an `Injection`: pure, idempotent, and never over the user's own.

`apply()` is the whole interface; every other module here is one concern of it.
"""

from function.pods.patch.apply import apply

__all__ = ["apply"]
