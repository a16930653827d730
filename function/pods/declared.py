"""What is declared of an engine: the tier, the policy, the engine, its version, the cache identity.

Three places say it, and the first that does wins: annotations of the pod templates (the one place
that Modelplane copies to its pods; one member's counts for its whole gang), the consumer's field
`kvOffloadTierRef`, and the step's Input. A field speaks for every engine of its composite; which
tier and how strictly, it says only for those that name none themselves. The Input's engine is a
default for pods that show nothing: it never contradicts what argv proves.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from function import names
from function.api.consumer import KVOffloadTierRef
from function.api.engines import ENGINES
from function.api.input import Input
from function.api.messages import unquoted_off
from function.contract.models import FAMILIES
from function.contract.packages import Fact
from function.contract.stock_images.declared import of_fields
from function.contract.stock_images.declared import parse as parse_packages
from function.contract.versions import parse
from function.kube.access import Json
from function.pods.refs import Ref
from function.problems import Refused
from function.reasons import Policy, Reason

ANNOTATION, FIELD = "annotation", "field"

# Characters of an annotation's value: a list of every package and family has 300.
_LONGEST = 1024
_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")


@dataclass(frozen=True)
class Declared:
    """What annotations, fields and the Input declare of one engine; "" and None: nothing.

    `engine`: vLLM or SGLang. `version`: a PEP 440 string. Their sources: annotation or field.
    `cache_identity`: free text. `packages`: what the image holds, of `packages.PACKAGES`.
    `families`: what the model is, of `models.FAMILIES`. `default_engine`, `default_version`: the
    Input's.
    """

    ref: Ref | None = None
    policy: Policy | None = None
    engine: str = ""
    engine_source: str = ""
    version: str = ""
    version_source: str = ""
    cache_identity: str = ""
    packages: Mapping[str, Fact] = field(default_factory=dict)
    families: frozenset[str] = frozenset()
    default_engine: str = ""
    default_version: str = ""


def declared(
    templates: Iterable[Mapping[str, Any]], by_field: KVOffloadTierRef | None, step_input: Input
) -> Declared:
    """Return what annotations, a field and the Input declare of one gang.

    Raise Refused: TierConflict where two annotations differ, InvalidInput for a value that is
    none. Where all that state a policy state Off, the others need not agree: nothing will be wired.
    """
    declaration = _annotated(templates, step_input.tier_namespace)
    if by_field is not None:
        declaration = _or_field(declaration, by_field, step_input.tier_namespace)
    return replace(
        declaration,
        default_engine=step_input.engine or "",
        default_version=step_input.engine_version or "",
    )


def _or_field(declaration: Declared, by_field: KVOffloadTierRef, tier_namespace: str) -> Declared:
    if declaration.ref is None:
        namespace = by_field.namespace or tier_namespace
        policy = declaration.policy or Policy(by_field.policy)
        declaration = replace(declaration, ref=Ref(namespace, by_field.name), policy=policy)
    if by_field.engine and not declaration.engine:
        declaration = replace(declaration, engine=by_field.engine, engine_source=FIELD)
    if by_field.engine_version and not declaration.version:
        declaration = replace(
            declaration, version=_version(by_field.engine_version), version_source=FIELD
        )
    said = by_field.packages.model_dump() if by_field.packages else {}
    return replace(
        declaration,
        cache_identity=declaration.cache_identity or by_field.cache_identity or "",
        packages={**of_fields(said, FIELD), **declaration.packages},
        families=declaration.families or frozenset(by_field.model_family),
    )


def _annotated(templates: Iterable[Mapping[str, Any]], tier_namespace: str) -> Declared:
    """Return what the annotations of one gang's templates declare together."""
    texts: dict[str, str] = {}
    all_annotations = [(t.get("metadata") or {}).get("annotations") or {} for t in templates]
    policies = {a[names.ANNOTATION_POLICY] for a in all_annotations if names.ANNOTATION_POLICY in a}
    for annotations in all_annotations:
        for name in _ANNOTATIONS:
            value = annotations.get(name)
            if value is None:
                continue
            value = str(value).strip()
            if len(value) > _LONGEST:
                raise _invalid(f"has {len(value)} characters; at most {_LONGEST} are read", name)
            if texts.setdefault(name, value) != value and policies != {Policy.OFF}:
                raise Refused(
                    Reason.TIER_CONFLICT,
                    f"pods of one engine say {texts[name]!r} and {value!r}; say the same on all, "
                    "or on one",
                    _path(name),
                )
    found: Json = {
        field: read(texts[name]) for name, (field, read) in _ANNOTATIONS.items() if name in texts
    }
    if ref := found.get("ref"):
        found["ref"] = replace(ref, namespace=ref.namespace or tier_namespace)
    found |= {f"{field}_source": ANNOTATION for field in ("engine", "version") if field in found}
    return Declared(**found)


def _tier(value: str) -> Ref:
    """Return the tier that an annotation names; without a namespace it is ""."""
    namespace, slash, name = value.rpartition("/")
    if not _NAME.fullmatch(name) or (slash and not _NAME.fullmatch(namespace)):
        raise _invalid(
            f"{value!r} is not [NAMESPACE/]NAME of a KVOffloadTier", names.ANNOTATION_TIER
        )
    return Ref(namespace, name)


def _policy(value: str) -> Policy:
    try:
        return Policy(value)
    except ValueError:
        hint = unquoted_off(value, list(Policy))
        raise _invalid(
            f"must be one of {', '.join(Policy)}, not {value!r}{hint}", names.ANNOTATION_POLICY
        ) from None


def _engine(value: str) -> str:
    for engine in ENGINES:
        if value.lower() == engine.lower():
            return engine
    raise _invalid(f"{value!r} is not one of {', '.join(ENGINES)}", names.ANNOTATION_ENGINE)


def _version(value: str) -> str:
    found = parse(value)
    if found is None:
        raise _invalid(
            f"{value!r} is not a version, such as 0.33.0", names.ANNOTATION_ENGINE_VERSION
        )
    return str(found)


def packages(value: str) -> Mapping[str, Fact]:
    """Return the facts of a text such as "lmcache=0.5.6,mooncake=0.3.13"."""
    try:
        return parse_packages(value, ANNOTATION)
    except ValueError as wrong:
        raise _invalid(str(wrong), names.ANNOTATION_PACKAGES) from None


def model_family(value: str) -> frozenset[str]:
    """Return the families of a text such as "hybrid" or "mla, multimodal"."""
    found = frozenset(filter(None, (part.strip().lower() for part in value.split(","))))
    if not found or found - set(FAMILIES):
        raise _invalid(
            f"{value!r} is not one of {', '.join(FAMILIES)}, or several of them with commas",
            names.ANNOTATION_MODEL_FAMILY,
        )
    return found


def _path(annotation: str) -> str:
    return f"metadata.annotations[{annotation}]"


def _invalid(message: str, annotation: str) -> Refused:
    return Refused(Reason.INVALID_INPUT, message, _path(annotation))


# {annotation: (field of Declared, what reads its text)}.
_ANNOTATIONS: Mapping[str, tuple[str, Callable[[str], Any]]] = {
    names.ANNOTATION_TIER: ("ref", _tier),
    names.ANNOTATION_POLICY: ("policy", _policy),
    names.ANNOTATION_ENGINE: ("engine", _engine),
    names.ANNOTATION_ENGINE_VERSION: ("version", _version),
    names.ANNOTATION_CACHE_IDENTITY: ("cache_identity", str),
    names.ANNOTATION_PACKAGES: ("packages", packages),
    names.ANNOTATION_MODEL_FAMILY: ("families", model_family),
}
