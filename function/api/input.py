"""The Input of the step in a Composition."""

from typing import Annotated, Literal

from function.api import fields as f
from function.api.base import ApiModel, FieldRule, exactly_one, rows
from function.api.engines import EngineName
from function.api.packages import ImagePackages
from function.names import TIER_NAMESPACE

API_VERSION = "kvoffload.fn.modelplane.ai/v1alpha1"
KIND = "Input"

_ImageName = Annotated[str, f.text(most=256)]


class EngineImage(ApiModel):
    """What an image runs when its pod names no command."""

    engine: EngineName
    entrypoint: Annotated[list[f.Text], f.items(16)] = []
    version: f.Version | None = None
    packages: ImagePackages | None = None


class AcceptedVersion(ApiModel):
    """A release of an engine that is newer than the function's own facts."""

    engine: EngineName
    newest: f.Version


class PodTemplatePath(ApiModel):
    """Places of pod templates in a workload of an unknown kind."""

    rules = (exactly_one("resource", "kind"),)

    resource: Annotated[str, f.text()] | None = None
    kind: Annotated[str, f.text(most=63)] | None = None
    path: f.FieldPath


class Input(ApiModel):
    """The step's mode, and facts that it cannot look up by itself."""

    ignored_keys = frozenset({"apiVersion", "kind", "metadata"})
    rules = rows(FieldRule, __file__, "Input")

    mode: Literal["Wire", "Compose"] = "Wire"
    engine: EngineName | None = None
    engine_version: f.Version | None = None
    engine_images: Annotated[
        dict[Annotated[str, f.text(most=256)], EngineImage], f.entries(64)
    ] = {}
    accepted_versions: Annotated[list[AcceptedVersion], f.items(8)] = []
    container: f.DnsLabel = "engine"
    paths: Annotated[list[PodTemplatePath], f.items(32)] = []
    control_plane_cluster: f.DnsName | None = None
    tier_namespace: f.DnsLabel = TIER_NAMESPACE
