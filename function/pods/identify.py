"""Which engine, and which version of it: declared, proven by argv, or looked up by image.

Never guessed: what was used and what proved it goes into the record. Workloads that bring a cache
tier of their own are recognised and left alone.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from function import command
from function.api.engines import ENGINES
from function.api.input import EngineImage
from function.api.packages import PACKAGES
from function.command import ImageCall, Program, programs
from function.contract import no_engines
from function.contract.engine import IMAGE, IMAGE_AT_MOST, IMAGE_DERIVED, IMAGE_TAG, Engine
from function.contract.image_reference import ImageReference
from function.contract.no_engines import NoEngine
from function.contract.packages import STATED, Fact, either, stated, unknown
from function.contract.stock_images import TAG, contents
from function.contract.stock_images.declared import of_fields
from function.contract.stock_images.named import named
from function.contract.stock_images.repositories import find
from function.engines.registry import kind
from function.pods import installs
from function.pods.declared import Declared
from function.pods.patch.env import literals
from function.problems import Refused
from function.reasons import Reason
from function.workloads import containers

# The version is one that the container's own script installs.
INSTALLED = "pip install"
_VERSION = r"v?(\d{1,4}\.\d{1,4}\.\d{1,4})(?=$|[-_+.])"
# In place of an entrypoint that nobody wrote out: it hands its arguments to the declared engine.
OWN_ENTRYPOINT = ("the image's entrypoint",)
_LEADING = re.compile(_VERSION)
# An interpreter by its version, as a program: python3.11, /usr/bin/python3.11.
_PYTHON = re.compile(r"(?:^|/)python(3\.\d{1,3})$")


def image_call(
    container: Mapping[str, Any], engine_images: Mapping[str, EngineImage]
) -> ImageCall | None:
    """Return what the container's image starts by itself; None if unknown. The Input wins."""
    reference = ImageReference.parse(str(container.get("image") or ""))
    row = _of_input(reference, engine_images)
    if row is not None:
        if not row.entrypoint and _begins_with_flag(container):
            return ImageCall(row.engine, OWN_ENTRYPOINT)
        return ImageCall(row.engine if row.entrypoint else "", tuple(row.entrypoint))
    known = find(reference)
    return ImageCall(known.engine if known.entrypoint else "", known.entrypoint) if known else None


def _begins_with_flag(container: Mapping[str, Any]) -> bool:
    """Return whether the arguments can be no command line of their own."""
    args = container.get("args")
    return isinstance(args, list) and bool(args) and str(args[0]).startswith("-")


def _of_input(
    reference: ImageReference, engine_images: Mapping[str, EngineImage]
) -> EngineImage | None:
    """Return the Input's row of an image: with its tag, else without; as written, else by name."""
    if not engine_images:
        return None
    names = (reference.repository, reference.name)
    keys = (*(f"{name}:{reference.tag}" for name in names), *names)
    return next((engine_images[key] for key in keys if key in engine_images), None)


def identify(
    pods: Sequence[tuple[Mapping[str, Any], Program]],
    declared: Declared,
    engine_images: Mapping[str, EngineImage],
) -> Engine:
    """Return the engine of one gang: name, version, image and packages, with their sources.

    `pods`: its serving containers, and what each of them runs. Raise Refused: OutOfScope for a
    stack with a tier of its own; EngineUnknown when nothing tells, or when two of the gang's pods
    tell different things.
    """
    _check_scope(pods, declared)
    found = _identify(pods, declared, engine_images)
    serving = list(pods)
    if len(pods) > 1:
        serving = [(c, p) for c, p in pods if p.calls or _has_ranks(c)] or serving
        if any(not c for c, _ in serving):  # Ray Serve starts it in the cluster's pods
            serving = [each for each in serving if each[0]] or [each for each in pods if each[0]]
    # A release that the script installs says nothing of the image below it.
    version = "" if found.version_source == INSTALLED else found.version or ""
    held = [_packages(c, p, version, declared, engine_images) for c, p in serving]
    return replace(found, packages={name: either(h.get(name) for h in held) for name in PACKAGES})


def _has_ranks(container: Mapping[str, Any]) -> bool:
    """Return whether a container of a gang has devices, and with them ranks of the engine."""
    return containers.asks_for_device({"spec": {"containers": [container]}})


def _packages(
    container: Mapping[str, Any],
    program: Program,
    version: str,
    declared: Declared,
    engine_images: Mapping[str, EngineImage],
) -> Mapping[str, Fact]:
    """Return what one container's image holds: declared, by the Input, its name, or a row."""
    image = str(container.get("image") or "")
    row = _of_input(ImageReference.parse(image), engine_images)
    by_input = row.packages.model_dump() if row is not None and row.packages else {}
    known = contents(image, version)
    held = known.packages if known else {}
    if any("python3." in (word.value or "") for call in program.calls for word in call.before):
        held = _of_python(held, program)
    return {
        **held,
        **installs.packages(container, held, known.version if known else None),
        **named(image, literals(container)),
        **of_fields(by_input, "engineImages"),
        **declared.packages,
    }


def _of_python(held: Mapping[str, Fact], program: Program) -> Mapping[str, Fact]:
    """Return an image's packages, unknown where the command names another Python than its own."""
    named = set()
    for call in program.calls:
        for word in call.before:
            if match := _PYTHON.search(word.value or ""):
                named.add(match[1])
    if not named:
        return held
    own = held["python"].versions if "python" in held else None
    if own is not None and named <= set(own):
        return held
    why = f"the command starts Python {', '.join(sorted(named))}"
    found = {name: unknown(why) for name in held if name not in ("cuda", "python")}
    python = {"python": stated(why, *named)} if len(named) == 1 else {"python": unknown(why)}
    return {**held, **found, **python}


def _identify(
    pods: Sequence[tuple[Mapping[str, Any], Program]],
    declared: Declared,
    engine_images: Mapping[str, EngineImage],
) -> Engine:
    name, source = _name(pods, declared, engine_images)
    image = next((i for c, p in pods if (i := str(c.get("image") or "")) and p.calls), "")
    image = image or next((str(c["image"]) for c, _ in pods if c.get("image")), "")
    found = Engine(name, name_source=source, image=image)
    if declared.version:
        return replace(found, version=declared.version, version_source=declared.version_source)
    if declared.default_version and name == declared.default_engine:
        return replace(found, version=declared.default_version, version_source="input")
    starting = [c for c, p in pods if p.calls] or [c for c, _ in pods]
    if any(not c for c in starting):  # Ray Serve starts it in the cluster's pods
        starting = [c for c, _ in pods if c.get("image")]
    versions = {known for c in starting if (known := _version(c, name, engine_images))}
    if len(versions) != 1:
        return found
    version, version_source = versions.pop()
    return replace(found, version=version, version_source=version_source)


def _version(
    container: Mapping[str, Any], engine: str, engine_images: Mapping[str, EngineImage]
) -> tuple[str | None, str] | None:
    """Return the version of the engine in the container's image, and how it is known."""
    if (installed := _installed(container, engine)) is not None:
        return installed
    row = _of_input(ImageReference.parse(str(container.get("image") or "")), engine_images)
    if row is not None and row.version and row.engine == engine:
        return row.version, "engineImages"
    image = contents(str(container.get("image") or ""))
    if image is None:
        return _built_on(str(container.get("image") or ""), engine)
    if image.engine != engine or not image.version:
        return None
    if image.version_source == TAG:
        return image.version, IMAGE_TAG
    if image.at_most:
        return image.version, IMAGE_AT_MOST
    return image.version, IMAGE if image.version_known == STATED else IMAGE_DERIVED


def _installed(container: Mapping[str, Any], engine: str) -> tuple[str | None, str] | None:
    """Return the version of the engine that the container's own script installs.

    Its version is None if it cannot be read. Return None if the script installs no engine, or only
    what the image has.
    """
    found = installs.of(container).get(kind(engine).distribution)
    if found is None or found == installs.ANY:
        return None
    return (None, installs.NOT_SAID) if found == installs.HIDDEN else (found, INSTALLED)


def _built_on(image: str, engine: str) -> tuple[str, str] | None:
    """Return the version of an image that names the one it is built on, in its name or its tag."""
    reference, names = ImageReference.parse(image), kind(engine).images
    version = re.search(rf"(?:^|[-_.]){kind(engine).distribution}[-_]?{_VERSION}", reference.tag)
    if version is None and names.stock.search(reference.name):
        version = _LEADING.match(reference.tag)
    elif version is None and names.own.search(reference.name):
        version = names.leading.match(reference.tag)
    return (version[1], IMAGE_TAG) if version else None


def _name(
    pods: Sequence[tuple[Mapping[str, Any], Program]],
    declared: Declared,
    engine_images: Mapping[str, EngineImage],
) -> tuple[str, str]:
    proven = {call.engine for _, program in pods for call in program.calls}
    images = sorted({str(c.get("image") or "a container without an image") for c, _ in pods})
    rows = (_of_input(r, engine_images) or find(r) for r in map(ImageReference.parse, images))
    by_image = {row.engine for row in rows if row and row.engine}
    if declared.engine:
        # A declaration may name what argv does not show, and not contradict what it does.
        if proven - {declared.engine}:
            place = declared.engine_source
            raise Refused(
                Reason.ENGINE_UNKNOWN,
                f"the {place} says {declared.engine}, and the command starts"
                f" {', '.join(sorted(proven))}; correct the {place} or remove it",
            )
        return declared.engine, declared.engine_source
    if declared.default_engine and not proven:
        return declared.default_engine, "input"
    # A container without a command starts what its image's entrypoint does: the table knew that.
    shown = any(c.get("command") or not c.get("image") for c, p in pods if p.calls)
    by_argv = "argv" if shown else "engineImages"
    for engines, source in ((proven, by_argv), (by_image, "engineImages")):
        if len(engines) == 1:
            return next(iter(engines)), source
        if engines:
            raise Refused(
                Reason.ENGINE_UNKNOWN,
                f"pods of one engine start different engines: {', '.join(sorted(engines))}",
            )
    problems = sorted({p.problem for _, p in pods if p.problem})
    why = f" ({'; '.join(problems)})" if problems else ""
    raise Refused(
        Reason.ENGINE_UNKNOWN,
        f"nothing tells which engine {', '.join(images)} runs{why}; {_advice(pods)}",
    )


def _advice(pods: Sequence[tuple[Mapping[str, Any], Program]]) -> str:
    """Return advice; a declaration helps only where the image starts the engine."""
    if all(program.inert for _, program in pods):
        return "its command starts no engine: remove the request for a tier, if that is so"
    if all(container.get("command") for container, _ in pods):
        starts = ", ".join(kind(name).start for name in ENGINES)
        return (
            "its command hides what it starts: if that is an engine, start it by a command line "
            f"that shows it ({starts}); else remove the request for a tier"
        )
    return (
        "if it is an engine, annotate the pod template with modelplane.ai/kv-offload-engine, "
        "-engine-version and -packages (`kv-offload probe` reads them), or add the image to "
        "engineImages in the step's input (--input); else remove the request for a tier"
    )


def _check_scope(pods: Sequence[tuple[Mapping[str, Any], Program]], declared: Declared) -> None:
    for container, program in pods:
        label = program.other_stack or other_stack(container, bool(program.calls))
        if label:
            reason = programs.OTHER_STACK_REASONS.get(label)
            why = f" ({reason})" if reason else ""
            message = f"no tier is wired to {label}{why}; remove the request for a tier"
            raise Refused(Reason.OUT_OF_SCOPE, message)
    others = [row.label for c, p in pods if (row := _no_engine(c, p))]
    if not others or len(others) < len(pods):
        return
    if declared.engine:
        raise Refused(
            Reason.ENGINE_UNKNOWN,
            f"the {declared.engine_source} says {declared.engine}, and the container visibly "
            f"starts {others[0]}; remove the {declared.engine_source}, and the request for a tier",
        )
    engines = " and ".join(f"no {name}" for name in ENGINES)
    why = f"it starts {others[0]}, which is {engines} server; remove the request for a tier"
    raise Refused(Reason.OUT_OF_SCOPE, why)


def _no_engine(container: Mapping[str, Any], program: Program) -> NoEngine | None:
    """Return what a container visibly starts that is no engine."""
    of_image = no_engines.of_image(str(container.get("image") or ""))
    if program.calls:  # by argv, or by a declaration, which an image may contradict
        return None if container.get("command") else of_image
    return no_engines.of_argv(command.started(program)) or of_image


def other_stack(container: Mapping[str, Any], proven: bool = False) -> str:
    """Return the serving stack that manages a container's KV cache; "" for any other container.

    `proven`: the argv shows a plain engine, which an image's name does not outweigh.
    """
    for entry in container.get("env") or ():
        name = str(entry.get("name", "")) if isinstance(entry, dict) else ""
        if label := programs.other_stack_of_env(name):
            return label
    repository = ImageReference.parse(str(container.get("image") or "")).repository
    return "" if proven else programs.other_stack_of_image(repository)
