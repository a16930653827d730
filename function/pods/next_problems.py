"""What a refused engine would be refused for next, so that one round tells every problem."""

import re
from collections.abc import Callable, Sequence
from dataclasses import replace

from function.api.engines import ENGINES
from function.command import Program
from function.command.budget import CallSpent
from function.contract import gate
from function.contract.backend import AnyBackend, AnyTier
from function.contract.engine import UNKNOWN_VERSION, Engine
from function.contract.injection import Injection
from function.contract.versions import known_versions
from function.engines.registry import kind
from function.pods.gang import EngineRequest, Pod
from function.pods.templates import apply
from function.problems import Refused
from function.reasons import Reason

# In place of one that is not known yet, to see what else is wrong.
_ANY_IDENTITY, _OTHER_IDENTITY = "0" * 12, "f" * 12
_BY_HAND = re.compile(r"[;,]?(?: or)? ?add by hand: .*", re.DOTALL)
# Reasons of the pod's own fields, which no flag of the engine changes.
_OF_THE_POD = frozenset({Reason.NODE_MISMATCH, Reason.POD_CONFLICT})


def of_engine(
    engine_request: EngineRequest,
    engine: Engine,
    tier: AnyTier,
    backend: AnyBackend,
    files_name: str,
) -> list[Refused]:
    """Return what a refused engine would be refused for next.

    Where another version is needed, it is judged as one of the newest that the tier takes.
    """
    found: list[Refused] = []
    known = _served(engine, tier, backend)
    if known is None:
        return found
    asked = known.version != engine.version or gate.asks_for_version(backend.gate(tier, engine))
    if asked and engine.identity_unknown.startswith(UNKNOWN_VERSION):
        known = replace(known, identity=_ANY_IDENTITY)
    elif asked:
        others = engine.identity_unknown.partition(f", {UNKNOWN_VERSION}")[0]
        known = replace(known, identity_unknown=others)
    try:
        for identity in dict.fromkeys((known.identity, _ANY_IDENTITY)):
            known = replace(known, identity=identity)
            try:
                injection = backend.inject(tier, known)
                break
            except Refused as refused:
                found.append(refused)
        else:
            return found
        found += _of_pods(engine_request.pods, known, injection, files_name)
    except (Refused, CallSpent):
        pass
    return [each for each in found if each.reason is not Reason.OUT_OF_SCOPE]


def of_any_engine(
    engine_request: EngineRequest,
    judged: Callable[[EngineRequest], Engine],
    tier: AnyTier,
    backend: AnyBackend,
    files_name: str,
) -> list[Refused]:
    """Return what pods of an unknown engine would be refused for next, whichever engine it is.

    That is what every engine that the tier serves is refused for, with one rank and with eight, for
    fields of the pod. `judged`: returns the engine of a request as backends judge it. Nothing is
    said of pods whose command shows that it starts no engine, or starts another one than declared.
    """
    pods = engine_request.unidentified
    if any(pod.calls for pod in pods) or all(pod.program.inert for pod in pods):
        return []
    pods = tuple(replace(pod, program=Program()) for pod in pods)  # unread, and not edited here
    common: dict[str, Refused] | None = None
    for name in ENGINES:
        for identity, ranks in ((_ANY_IDENTITY, "1"), (_OTHER_IDENTITY, "8")):
            engine = Engine(name, flags={kind(name).ranks.shared[0]: ranks})
            guess = replace(engine_request, pods=pods, engine=engine, refused=None)
            try:
                known = _served(judged(guess), tier, backend)
                if known is None:
                    continue
                injection = backend.inject(tier, replace(known, identity=identity))
                found = _of_pods(pods, known, injection, files_name)
            except Refused as refused:
                if refused.reason is Reason.ENGINE_UNSUPPORTED:
                    continue
                return []
            except CallSpent:
                return []
            here = {str(each): each for each in found if each.reason in _OF_THE_POD}
            common = here if common is None else {k: v for k, v in common.items() if k in here}
            if not common:
                return []
    return list((common or {}).values())


def in_template(refused: Refused, pod: Pod, pods: Sequence[Pod]) -> Refused:
    """Return the refusal with a path from the root, where a gang has several templates."""
    place = pod.template.path
    return Refused.all_of(
        [
            part
            if len(pods) < 2 or not part.path or part.path.startswith(place)
            else Refused(part.reason, part.message, f"{place}.{part.path}")
            for part in refused.parts
        ]
    )


def _served(engine: Engine, tier: AnyTier, backend: AnyBackend) -> Engine | None:
    """Return the engine with the features of its version, else of the newest that is served.

    None where the tier serves no version of it.
    """
    for version in (engine.version, *reversed(known_versions(engine.name))):
        one = replace(engine, version=version)
        try:
            return replace(one, features=gate.versions(backend.gate(tier, one)).features)
        except Refused:
            continue
    return None


def _of_pods(
    pods: Sequence[Pod], engine: Engine, injection: Injection, files_name: str
) -> list[Refused]:
    """Return what wiring the pods is refused for, without words of a pod that is not mended yet."""
    found = []
    for pod in pods:
        try:
            apply(pod, engine, injection, files_name)
        except Refused as refused:
            for here in in_template(refused, pod, pods).parts:
                message = _BY_HAND.sub("", here.message)
                found.append(Refused(here.reason, message, here.path))
    return found
