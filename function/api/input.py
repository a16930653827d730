"""The Input of the step in a Composition."""

from typing import Annotated, Literal

from function.api import fields as f
from function.api.base import ApiModel, FieldRule, exactly_one
from function.api.engines import EngineName
from function.api.packages import ImagePackages
from function.names import TIER_NAMESPACE

API_VERSION = "kvoffload.fn.modelplane.ai/v1alpha1"
KIND = "Input"

_ImageName = Annotated[str, f.text(most=256)]


class EngineImage(ApiModel):
    """What an image runs when its pod names no command."""

    engine: EngineName
    """The engine in the image."""
    entrypoint: Annotated[list[f.Text], f.items(16)] = []
    """The image's ENTRYPOINT, word by word, e.g. [vllm, serve]. Empty: the container's own command
    and args are the whole command line."""
    version: f.Version | None = None
    """The engine's version in the image, if its tag does not name it."""
    packages: ImagePackages | None = None
    """Package versions in the image, if it is not a known image. `kv-offload probe` reads them
    inside the image."""


class AcceptedVersion(ApiModel):
    """A release of an engine that is newer than the function's own facts."""

    engine: EngineName
    """The engine."""
    newest: f.Version
    """The newest version that tiers accept, e.g. 0.34.0. It is treated like the newest version that
    the function knows, and the condition warns about it."""


class PodTemplatePath(ApiModel):
    """Places of pod templates in a workload of an unknown kind."""

    rules = (exactly_one("resource", "kind"),)

    resource: Annotated[str, f.text()] | None = None
    """Key of the composed resource."""
    kind: Annotated[str, f.text(most=63)] | None = None
    """Kind of the workload, bare or inside an Object."""
    path: f.FieldPath
    """Path to a pod template (the object with metadata and spec), e.g. spec.template, or
    spec.roles[*].template for each item of a list."""


class Input(ApiModel):
    """The step's mode, and facts that it cannot look up by itself."""

    ignored_keys = frozenset({"apiVersion", "kind", "metadata"})
    rules = (
        FieldRule(
            "!has(self.engineVersion) || has(self.engine)",
            "engine must be set when engineVersion is set",
            "engine",
        ),
    )

    mode: Literal["Wire", "Compose"] = "Wire"
    """Wire patches workloads of earlier steps. Compose creates the workloads of standalone
    InferenceClusters and ModelDeployments."""
    engine: EngineName | None = None
    """The engine of pods that do not set it themselves."""
    engine_version: f.Version | None = None
    """The engine's version, for pods that do not set it themselves."""
    engine_images: Annotated[
        dict[Annotated[str, f.text(most=256)], EngineImage], f.entries(64)
    ] = {}
    """Engines by image: the last path element of the repository (NAME), or with its tag (NAME:TAG),
    which takes precedence over NAME. Both take precedence over the function's table of public
    images."""
    accepted_versions: Annotated[list[AcceptedVersion], f.items(8)] = []
    """Versions of engines to accept before a release of the function knows them."""
    container: f.DnsLabel = "engine"
    """Name of the container that runs the engine."""
    paths: Annotated[list[PodTemplatePath], f.items(32)] = []
    """Pod templates in workloads of unknown kinds."""
    control_plane_cluster: f.DnsName | None = None
    """The InferenceCluster of bare workloads: those that a Composition creates on the control plane
    rather than in an Object."""
    tier_namespace: f.DnsLabel = TIER_NAMESPACE
    """Namespace of tiers that a consumer names without one, and of the tiers that a standalone
    InferenceCluster declares."""
