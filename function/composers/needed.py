"""What a tier needs beside itself, as far as core has looked it up."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from function.contract.backend import Need
from function.edge.answer import Requirement
from function.edge.request import Call
from function.problems import Problem


@dataclass(frozen=True)
class Needed:
    """`documents`: by the need's name. `unresolved`: what core has not looked up yet, for people.

    `problems`: what is not there. `requirements`: all of it, asked for on every call.
    """

    documents: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    unresolved: tuple[str, ...] = ()
    problems: tuple[Problem, ...] = ()
    requirements: Mapping[str, Requirement] = field(default_factory=dict)

    @classmethod
    def of(cls, call: Call, needs: Iterable[Need], prefix: str = "need") -> Self:
        """`prefix`: of the requirements' names, so that several tiers' needs stand side by side."""
        documents, unresolved, problems, requirements = {}, [], [], {}
        for need in needs:
            key = f"{prefix}/{need.name}"
            requirements[key] = Requirement(
                need.api_version, need.kind, name=need.object_name, namespace=need.namespace
            )
            resolved = call.required(key)
            what = f"{need.kind} {need.namespace}/{need.object_name}"
            if resolved is None:
                unresolved.append(what)
            elif not resolved:
                message = f"there is no {what}; create it, or correct the name"
                problems.append(Problem(need.path, message))
            else:
                documents[need.name] = resolved[0]
        return cls(documents, tuple(unresolved), tuple(problems), requirements)
