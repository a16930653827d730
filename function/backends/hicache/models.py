"""Which models SGLang's hierarchy serves, with any storage below it or none."""

from function.backends.hierarchy_rows import MODELS

__all__ = ["MODELS"]
