"""Field types that several kinds share: names, references, bounded lists and maps.

Everything that CEL may iterate has an upper bound. Without one the API server estimates a rule's
cost for the largest possible document, and refuses the whole XRD.
"""

import re
from typing import Annotated, Any

from pydantic import Field, PlainValidator, WithJsonSchema
from pydantic.fields import FieldInfo
from pydantic_core import PydanticCustomError

_DNS_LABEL = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"
_DNS_SUBDOMAIN = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"
_LABEL_VALUE = r"^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$"
_QUALIFIED = (
    r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?"
    r"[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$"
)
_SECRET_KEY = r"^[-._a-zA-Z0-9]+$"
_DIGEST = r"^sha256:[0-9a-f]{64}$"
_TAG = r"^[A-Za-z0-9_][A-Za-z0-9_.-]*$"
_REPOSITORY = r"^[a-zA-Z0-9][-a-zA-Z0-9._:]*(/[a-z0-9][-a-z0-9._]*)*$"
_VERSION = r"^[0-9]+(\.[0-9]+)*([a-z]+[0-9]+)?(\.(post|dev)[0-9]+)?$"
PACKAGE_VERSION = r"^(none|[0-9]+(\.[0-9]+)*([a-z]+[0-9]+)?(\.(post|dev)[0-9]+)?(\+[a-z0-9.]+)?)$"
_ABSOLUTE = r"^/[^:]*$"
_HOST = r"^[A-Za-z0-9]([-A-Za-z0-9.]*[A-Za-z0-9])?$"
_FIELD_PATH = r"^[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+|\[[0-9]+\]|\[\*\])*$"

_PERCENT = "^([1-9]|[1-9][0-9]|100)%$"
COUNT_OR_PERCENT = "a whole number of at least 1 or a percentage such as 10%"

# What a pattern means, for messages.
PATTERNS = {
    _DNS_LABEL: "a DNS label (lower-case letters, digits and -, no - at an end)",
    _DNS_SUBDOMAIN: "a DNS name (lower-case letters, digits, - and ., no - or . at an end)",
    _LABEL_VALUE: "a label value (letters, digits, -, _ and ., a letter or digit at each end)",
    _QUALIFIED: "a qualified name ([domain/]name)",
    _SECRET_KEY: "a key of a Secret (letters, digits, -, _ and .)",
    _DIGEST: "an image digest (sha256: and 64 hex digits)",
    _TAG: "an image tag (letters, digits, _, . and -)",
    _REPOSITORY: "an image repository without tag or digest (they have fields of their own)",
    _VERSION: "a version such as 0.5.6",
    PACKAGE_VERSION: "a version such as 0.5.6, or none",
    _ABSOLUTE: "an absolute path without a colon",
    _HOST: "a host name or an IPv4 address (the port has a field of its own)",
    _FIELD_PATH: "a field path such as spec.template or spec.groups[*].template",
}


def text(pattern: str | None = None, *, least: int = 1, most: int = 253) -> FieldInfo:
    """Return the constraints of a string: its length and pattern."""
    constraints: FieldInfo = Field(min_length=least, max_length=most, pattern=pattern)
    return constraints


DnsLabel = Annotated[str, text(_DNS_LABEL, most=63)]
DnsName = Annotated[str, text(_DNS_SUBDOMAIN)]
Qualified = Annotated[str, text(_QUALIFIED, most=317)]
LabelValue = Annotated[str, text(_LABEL_VALUE, least=0, most=63)]
SecretKey = Annotated[str, text(_SECRET_KEY)]
ImageDigest = Annotated[str, text(_DIGEST, most=71)]
ImageTag = Annotated[str, text(_TAG, most=128)]
ImageRepository = Annotated[str, text(_REPOSITORY, most=255)]
Version = Annotated[str, text(_VERSION, most=32)]
AbsolutePath = Annotated[str, text(_ABSOLUTE, most=1024)]
Host = Annotated[str, text(_HOST)]
FieldPath = Annotated[str, text(_FIELD_PATH, most=512)]
Port = Annotated[int, Field(ge=1, le=65535)]
Text = Annotated[str, text(most=1024)]


def items(most: int, *, least: int = 0, keys: tuple[str, ...] = ()) -> FieldInfo:
    """Return the constraints of a list: its length and list type.

    The list type is a map by `keys`, or else atomic. Items of a map differ in `keys`; `parse`
    checks that as the API server does.
    """
    extra: dict[str, Any] = {"x-kubernetes-list-type": "map" if keys else "atomic"}
    if keys:
        extra["x-kubernetes-list-map-keys"] = list(keys)
    constraints: FieldInfo = Field(
        min_length=least or None, max_length=most, json_schema_extra=extra
    )
    return constraints


def entries(most: int, *, least: int = 0) -> FieldInfo:
    """Return the constraints of a map: its number of entries."""
    constraints: FieldInfo = Field(min_length=least or None, max_length=most)
    return constraints


Labels = Annotated[dict[Qualified, LabelValue], entries(32)]
Annotations = Annotated[dict[Qualified, Annotated[str, text(least=0, most=8192)]], entries(32)]


def _count_or_percent(value: Any) -> int | str:
    if isinstance(value, int) and not isinstance(value, bool) and value >= 1:
        return value
    if isinstance(value, str) and re.fullmatch(_PERCENT, value):
        return value
    raise PydanticCustomError("count_or_percent", "")


CountOrPercent = Annotated[
    int | str,
    PlainValidator(_count_or_percent),
    # By bounds, not by CEL: a rule over a string that may be a number costs too much in a list.
    WithJsonSchema(
        {"x-kubernetes-int-or-string": True, "minimum": 1, "maxLength": 4, "pattern": _PERCENT}
    ),
]
