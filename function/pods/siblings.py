"""Find the claims and ConfigMaps of a composite that its workloads refer to by name."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Self

from function import workloads
from function.contract.accelerators.claims import KIND as CLAIM
from function.contract.accelerators.claims import Claims
from function.engines.config_file import MAX_BYTES
from function.kube import access, objects
from function.kube.access import Json
from function.problems import Refused
from function.workloads.model import PREFILL
from function.workloads.roles import ROLE_LABEL, phase_by_label

CONFIG_MAP = "ConfigMap"
KINDS = frozenset({CLAIM, CONFIG_MAP})
# A resource that holds this text may label its pods as prefill.
LABEL = ROLE_LABEL

# The texts of ConfigMaps by name, as one pod sees them; None where two of one name differ.
Texts = Mapping[str, Mapping[str, str] | None]


@dataclass(frozen=True)
class ConfigMaps:
    """The ConfigMaps that can be seen: (cluster, namespace, name, its texts) of each.

    The cluster is the Object's ProviderConfig, None for what is composed bare. Of a text that is
    too long to be read anywhere only so much is kept that this shows.
    """

    seen: tuple[tuple[str | None, str, str, tuple[tuple[str, str], ...]], ...] = ()

    @classmethod
    def among(cls, resources: Iterable[Json]) -> Self:
        """Return the ConfigMaps among desired resources, bare or in Objects."""
        return cls(tuple(found for each in resources if (found := _config_map(each))))

    def mountable_by(self, resource: Json, namespace: str) -> Texts:
        """Return the texts that a pod in `resource` may mount. `namespace`: the pod's."""
        cluster, found = _cluster(resource), dict[str, Mapping[str, str] | None]()
        for place, of, name, texts in self.seen:
            if (place, of) == (cluster, namespace):
                here = dict(texts)
                found[name] = here if found.get(name, here) == here else None
        return found


@dataclass(frozen=True)
class SiblingResources:
    """What else a composite desires that counts for its engines.

    Claims for devices, ConfigMaps to mount, and whether pods of it are labelled as prefill.
    """

    claims: Claims = field(default_factory=Claims)
    config_maps: ConfigMaps = field(default_factory=ConfigMaps)
    has_prefill: bool = False

    @classmethod
    def among(cls, resources: Iterable[Json]) -> Self:
        """Find them among desired resources, bare or in Objects."""
        held = list(resources)
        manifests = [each for each in map(objects.unwrap, held) if each is not None]
        prefill = any(map(_is_prefill, manifests))
        return cls(Claims.among(manifests), ConfigMaps.among(held), prefill)


def _is_prefill(manifest: Json) -> bool:
    """Return whether a pod template of a known kind has the label of prefill engines."""
    try:
        workload = workloads.find(manifest)
    except Refused:
        return False
    return workload is not None and any(
        phase_by_label(template.body) == PREFILL for template in workload.templates
    )


def _config_map(resource: Json) -> tuple[str | None, str, str, tuple[tuple[str, str], ...]] | None:
    manifest = objects.unwrap(resource)
    if manifest is None or manifest.get("kind") != CONFIG_MAP or manifest.get("apiVersion") != "v1":
        return None
    if objects.is_object(resource) and not _is_written(access.mapping(resource, "spec")):
        return None
    texts = {k: v[: MAX_BYTES + 1] for k, v in access.texts(manifest, "data").items()}
    namespace = access.text(manifest, "metadata", "namespace") or "default"
    name = access.text(manifest, "metadata", "name")
    if not name:  # Crossplane makes one: no pod refers to it
        return None
    return _cluster(resource), namespace, name, tuple(sorted(texts.items()))


def _is_written(spec: Json) -> bool:
    """Return whether an Object's manifest is what provider-kubernetes writes, to the letter."""
    policies = spec.get("managementPolicies", ["*"])
    writes = isinstance(policies, list) and any(each in ("*", "Update") for each in policies)
    return writes and not any(
        each.get("patchesFrom") for each in access.objects(spec, "references")
    )


def _cluster(resource: Json) -> str | None:
    if not objects.is_object(resource):
        return None
    config = access.mapping(resource, "spec", "providerConfigRef")
    return f"{resource['apiVersion']} {config.get('kind')} {config.get('name')}"
