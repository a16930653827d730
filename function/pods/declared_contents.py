"""What a pod template's annotations declare of the image and of the model, beside `declared`."""

from collections.abc import Mapping

from function import names
from function.contract.models import FAMILIES
from function.contract.packages import Fact
from function.contract.stock_images.declared import parse
from function.problems import Refused
from function.reasons import Reason


def packages(value: str) -> Mapping[str, Fact]:
    """Return the facts of an annotation such as "lmcache=0.5.6,mooncake=0.3.13".

    `value`: of modelplane.ai/kv-offload-packages. Raise Refused(InvalidInput) with its syntax.
    """
    try:
        return parse(value, "annotation")
    except ValueError as wrong:
        raise _invalid(str(wrong), names.ANNOTATION_PACKAGES) from None


def model_family(value: str) -> frozenset[str]:
    """Return the families of an annotation such as "hybrid" or "mla, multimodal".

    `value`: of modelplane.ai/kv-offload-model-family. Raise Refused(InvalidInput) that names the
    families.
    """
    found = frozenset(filter(None, (part.strip().lower() for part in value.split(","))))
    if not found or found - set(FAMILIES):
        raise _invalid(
            f"{value!r} is not one of {', '.join(FAMILIES)}, or several of them with commas",
            names.ANNOTATION_MODEL_FAMILY,
        )
    return found


def _invalid(message: str, annotation: str) -> Refused:
    return Refused(Reason.INVALID_INPUT, message, f"metadata.annotations[{annotation}]")
