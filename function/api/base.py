"""The base of every type that users write.

One definition per field: type, default, bounds, unit and description live in the pydantic model;
XRDs, the Input's CRD and the reference tables are generated from it (`make generate`).
"""

from typing import Any

from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel


class ApiModel(BaseModel):
    """A closed object with camelCase field names, frozen so that it can be memoised.

    `cel`: the object's CEL rules as (rule, message, fieldPath or "") rows; the message names the
    fields. They become `x-kubernetes-validations` and are also checked in Python by `check_rules`.
    """

    model_config = ConfigDict(
        alias_generator=to_camel,
        populate_by_name=True,
        extra="forbid",
        frozen=True,
        use_enum_values=True,
        validate_default=False,
    )

    def dump(self) -> dict[str, Any]:
        """The object as users write it: camelCase, without absent fields."""
        return self.model_dump(by_alias=True, exclude_none=True)
