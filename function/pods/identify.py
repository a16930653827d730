"""Which engine, and which version of it: declared, proven by argv, or looked up by image.

Never guessed: what was used and what proved it goes into the record. Workloads that bring a cache
tier of their own are recognised and left alone.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from packaging.version import InvalidVersion, Version

from function.api.input import EngineImage
from function.command import ImageCall, Program
from function.contract.engine import SGLANG, VLLM
from function.pods.declared import Declared
from function.problems import Refused
from function.reasons import Reason
from function.workloads.containers import repository_name, split_image


@dataclass(frozen=True)
class Image:
    """What is known of a public image. `entrypoint`: its ENTRYPOINT; () runs its arguments as a
    command line. `tag_is_version`: whether its tags are the engine's versions."""

    engine: str
    entrypoint: tuple[str, ...] = ()
    tag_is_version: bool = True


_SERVE = ("vllm", "serve")

# By the end of the repository: two path elements where one would be ambiguous. Mirrors keep these.
# lmcache/* carry LMCache's version in their tags, NVIDIA's and AMD's a release of their own.
IMAGES: dict[str, Image] = {
    "lmcache/vllm-openai": Image(VLLM, ("/opt/venv/bin/vllm", "serve"), tag_is_version=False),
    "lmcache/sglang": Image(SGLANG, tag_is_version=False),
    "nvidia/vllm": Image(VLLM, tag_is_version=False),
    "rocm/vllm": Image(VLLM, tag_is_version=False),
    "vllm-openai": Image(VLLM, _SERVE),
    "vllm-openai-rocm": Image(VLLM, _SERVE),
    "vllm-openai-xpu": Image(VLLM, _SERVE),
    "vllm-openai-cpu": Image(VLLM, _SERVE),
    "vllm-dev": Image(VLLM, tag_is_version=False),
    "sglang": Image(SGLANG),
    "sgl-dev": Image(SGLANG, tag_is_version=False),
}

# AMD writes the engine's version into the middle of its tags: rocm6.2_..._vllm_0.6.4.
_VERSION_INSIDE = re.compile(r"(?:^|[_-])(?:vllm|sglang)[_-]v?(\d+\.\d+(?:\.\d+)?)(?=$|[_-])")
_VERSION_TAG = re.compile(r"v?(\d+\.\d+\.\d+(?:\.?(?:post|rc|dev)\d+)?)(?:[-_+].*)?")

# Serving stacks with a KV tier of their own: by repository, and by environment variable.
_FOREIGN_IMAGES: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"(^|/)nim/"), "NVIDIA NIM"),
    (re.compile(r"(^|/)ai-dynamo/"), "NVIDIA Dynamo"),
    (re.compile(r"(^|/)tritonserver$"), "NVIDIA Triton"),
    (re.compile(r"(^|/)text-generation-inference$"), "Text Generation Inference"),
    (re.compile(r"(^|/)tgi$"), "Text Generation Inference"),
)
_FOREIGN_ENV: tuple[tuple[str, str], ...] = (
    ("DYN_KVBM_", "Dynamo KVBM"),
    ("NIM_CACHE_PATH", "NVIDIA NIM"),
    ("NIM_MODEL_NAME", "NVIDIA NIM"),
)


@dataclass(frozen=True)
class Identified:
    """`version`: PEP 440, None when nothing tells. The sources are for the record and people:
    "annotation", "field", "argv", "input", "engineImages", "image tag", "" for an unknown
    version."""

    name: str
    name_source: str
    version: str | None = None
    version_source: str = ""
    image: str = ""


def image_call(
    container: Mapping[str, Any], engine_images: Mapping[str, EngineImage]
) -> ImageCall | None:
    """What the container's image starts by itself; None when nothing tells. Input wins."""
    image = str(container.get("image") or "")
    row = engine_images.get(repository_name(image))
    if row is not None:
        return ImageCall(row.engine if row.entrypoint else "", tuple(row.entrypoint))
    known = public(image)
    return ImageCall(known.engine if known.entrypoint else "", known.entrypoint) if known else None


def public(image: str) -> Image | None:
    """The row of the table of public images for this image."""
    parts = split_image(image)[0].split("/")
    return IMAGES.get("/".join(parts[-2:])) or IMAGES.get(parts[-1])


def identify(
    pods: Sequence[tuple[Mapping[str, Any], Program]],
    declared: Declared,
    engine_images: Mapping[str, EngineImage],
) -> Identified:
    """The engine of one gang, from its serving containers and what each of them runs.

    Raises Refused: OutOfScope for a stack with a tier of its own; EngineUnknown when nothing tells,
    or when two of the gang's pods tell different things.
    """
    _check_scope(pods)
    name, source = _name(pods, declared, engine_images)
    image = next((i for c, p in pods if (i := str(c.get("image") or "")) and p.calls), "")
    image = image or next((str(c["image"]) for c, _ in pods if c.get("image")), "")
    if declared.version:
        return Identified(name, source, declared.version, declared.version_source, image)
    if declared.default_version and name == declared.default_engine:
        return Identified(name, source, declared.default_version, "input", image)
    versions = {v for c, p in pods if (p.calls or len(pods) == 1) and (v := _from_tag(c, name))}
    if len(versions) == 1:
        return Identified(name, source, versions.pop(), "image tag", image)
    return Identified(name, source, image=image)


def version_of_tag(image: str) -> str | None:
    """The engine's version that an image's tag is or holds, where that is known of the image."""
    known = public(image)
    tag = split_image(image)[1]
    if known is None or not tag:
        return None
    inside = _VERSION_INSIDE.search(tag)
    match = inside or (_VERSION_TAG.fullmatch(tag) if known.tag_is_version else None)
    try:
        return str(Version(match[1])) if match else None
    except InvalidVersion:
        return None


def _from_tag(container: Mapping[str, Any], engine: str) -> str | None:
    image = str(container.get("image") or "")
    known = public(image)
    return version_of_tag(image) if known and known.engine == engine else None


def _name(
    pods: Sequence[tuple[Mapping[str, Any], Program]],
    declared: Declared,
    engine_images: Mapping[str, EngineImage],
) -> tuple[str, str]:
    proven = {call.engine for _, program in pods for call in program.calls}
    images = sorted({str(c.get("image") or "none") for c, _ in pods})
    by_image = {e for image in images if (e := _image_engine(image, engine_images))}
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
    raise Refused(
        Reason.ENGINE_UNKNOWN,
        f"nothing tells which engine {', '.join(images)} runs"
        + (f" ({'; '.join(problems)})" if problems else "")
        + "; annotate the pod template with modelplane.ai/kv-offload-engine, or add the image to "
        "engineImages in the step's input",
    )


def _image_engine(image: str, engine_images: Mapping[str, EngineImage]) -> str:
    row = engine_images.get(repository_name(image))
    if row is not None:
        return row.engine
    known = public(image)
    return known.engine if known else ""


def _check_scope(pods: Sequence[tuple[Mapping[str, Any], Program]]) -> None:
    for container, program in pods:
        label = program.foreign or foreign(container, bool(program.calls))
        if label:
            raise Refused(
                Reason.OUT_OF_SCOPE,
                f"{label} brings a KV cache tier of its own; it is left alone",
            )


def foreign(container: Mapping[str, Any], proven: bool = False) -> str:
    """The name of a serving stack that manages its own cache; "" for any other container.

    `proven`: the argv shows a plain engine, which an image's name does not outweigh.
    """
    for entry in container.get("env") or ():
        name = str(entry.get("name", "")) if isinstance(entry, dict) else ""
        for prefix, label in _FOREIGN_ENV:
            if name.startswith(prefix):
                return label
    repository = split_image(str(container.get("image") or ""))[0]
    if not proven:
        for pattern, label in _FOREIGN_IMAGES:
            if pattern.search(repository):
                return label
    return ""
