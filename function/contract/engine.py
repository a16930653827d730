"""The facts of one engine pod that backends and the version gate decide by."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from function.contract.accelerators.kinds import NOT_SHOWN, Accelerator
from function.contract.packages import Fact, unknown

# How an image says its engine's version: its tag is it, or what is known of the image.
IMAGE_TAG, IMAGE, IMAGE_DERIVED = "image tag", "image", "image, derived"
# The image holds this version or an older one.
IMAGE_AT_MOST = "image, at most"
# In `Engine.identity_unknown`, as its last item: the version is what is not known.
UNKNOWN_VERSION = "the engine's version"
# What proves a name or a version, as the record has it, in words for people.
BY = {
    "annotation": "the annotation",
    "argv": "the command",
    "engineImages": "the image's name",
    "field": "the consumer's field",
    "input": "the step's input",
    IMAGE_TAG: "the image's tag",
    IMAGE: "the image's release, docs/images.md",
    IMAGE_DERIVED: "the image's release, derived, docs/images.md",
    IMAGE_AT_MOST: "the image's release, derived, docs/images.md",
}


def by(source: str) -> str:
    """Return what proves an engine's name or version, for people: "by the command"."""
    return f"by {BY.get(source, source)}"


@dataclass(frozen=True)
class Engine:
    """One engine (a single pod, or a gang of `pods`), as looked up and never guessed.

    Reading its pods gives all but what depends on the tier: `identity`, `tenant`, `features`,
    `has_payload`.

    `name`: of ENGINES. `version`: a PEP 440 string, or None when nothing declares it.
    `name_source`, `version_source`: what proved it, for the record and for people: "annotation",
    "field", "argv", "input", "engineImages", "image tag", "image" (docs/images.md), "image,
    derived", "image, at most" for a bound; "" for an unknown version.
    `flags`: the engine's effective flags, canonical dashed names, last one wins, None for a switch
    and for a value that is not static. `env`: the container's literal env values (None:
    valueFrom). `more_env`: other variables may be set that cannot be seen here. `namespace`: of
    its pods on the workload cluster, "" when unknown. `phase`: Unified, Prefill or Decode;
    `phase_note`: what a label decides of it, "" where it decides nothing.
    `identity`: the cache identity digest, "" when unknown; `identity_unknown`: what of the pod
    cannot be read for it. `tenant`: the part of the tier that it
    is kept to (`Backend.tenant`), "" where all share it.
    `root`: whether its containers say that they run as root. `needs_ray`: Ray starts it, or its
    workers, and its image must hold Ray.
    `model`: the string behind the model argument, "" when unknown. `features`: what the version
    gate says this engine's version has of the tier's connector (`function.contract.gate`).
    `packages`: what is known of the image's, by the names of PACKAGES. `connectors`: names of the
    pod's own. `families`: what somebody
    declares the model to be. `accelerator`: what the pod runs on. `newest`: the newest version that
    the step's Input accepts, "" for none beyond the function's own. `has_payload`: the tier names a
    payload image. `pod_gpus`: the most GPUs that Ray is told of in one of its pods, 0 where that is
    not known or another places the ranks. `copies`: how many such engines Ray Serve starts at most,
    None where nothing says it.
    """

    name: str
    version: str | None = None
    name_source: str = ""
    version_source: str = ""
    image: str = ""
    flags: Mapping[str, str | None] = field(default_factory=dict)
    env: Mapping[str, str | None] = field(default_factory=dict)
    more_env: bool = False
    pods: int = 1
    namespace: str = ""
    phase: str = "Unified"
    phase_note: str = ""
    model: str = ""
    identity: str = ""
    identity_unknown: str = ""
    identity_advice: str = ""
    tenant: str = ""
    features: frozenset[str] = frozenset()
    packages: Mapping[str, Fact] = field(default_factory=dict)
    families: frozenset[str] = frozenset()
    accelerator: Accelerator = NOT_SHOWN
    connectors: frozenset[str] = frozenset()
    newest: str = ""
    root: bool = False
    needs_ray: bool = False
    has_payload: bool = False
    pod_gpus: int = 0
    copies: int | None = 1

    @property
    def own_version(self) -> str | None:
        """Return the version that the pod itself states, by a declaration or a tag.

        A version that is only known of its image is none: two such images may differ.
        """
        sources = (IMAGE, IMAGE_DERIVED, IMAGE_AT_MOST)
        return None if self.version_source in sources else self.version

    @property
    def version_text(self) -> str:
        """Return the version for people, "0.10.2 or older" for a bound; "" for an unknown one."""
        return f"{self.version or ''}{' or older' if self.version_source == IMAGE_AT_MOST else ''}"

    @property
    def proven_version(self) -> str:
        """Return a known version and its source: "0.33.0 (by the image's tag)"."""
        source = f" ({by(self.version_source)})" if self.version_source else ""
        return f"{self.version_text}{source}"

    def flag(self, name: str) -> str | None:
        """Return the effective value of a flag given in its canonical spelling, or None."""
        return self.flags.get(name)

    def package(self, name: str) -> Fact:
        """Return what is known of a package of the image."""
        return self.packages.get(name) or unknown("no row in docs/images.md")

    def number(self, name: str) -> int:
        """Return a flag's number; 1 where it has none that an engine starts with."""
        value = self.flag(name) or ""
        return max(1, int(value)) if value.isdecimal() and len(value) < 10 else 1

    def has(self, name: str) -> bool:
        """Return whether a flag is given, with or without a value."""
        return name in self.flags
