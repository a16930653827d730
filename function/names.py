"""The names by which tiers, consumers and the fleet find each other: labels, annotations, keys."""

from function.kube import naming

GROUP = "modelplane.ai"
TIER_API_VERSION = f"{GROUP}/v1alpha1"
USAGE_API_VERSION = "protection.crossplane.io/v1beta1"

# On a child tier: the fleet tier (or inline tier) whose name consumers use.
LABEL_FLEET = f"{GROUP}/kv-offload-fleet"
# On a Usage: the tier that is used, and the fleet it belongs to.
LABEL_USED_TIER = f"{GROUP}/kv-offload-used-tier"
LABEL_USED_FLEET = f"{GROUP}/kv-offload-used-fleet"
# On a Usage: a digest of the model string, and the cache identity under it ("unknown").
LABEL_USED_MODEL = f"{GROUP}/kv-offload-used-model"
LABEL_USED_IDENTITY = f"{GROUP}/kv-offload-used-identity"
# On a Usage: the tier as namespace/name, and what the consumer shares there (see usage.Share).
ANNOTATION_TIER = f"{GROUP}/kv-offload-used-tier"
ANNOTATION_SHARES = f"{GROUP}/kv-offload-shares"


def reference(namespace: str, name: str) -> str:
    """A label value that names a tier: `namespace.name`, or a digest form past 63 characters."""
    plain = f"{namespace}.{name}"
    return plain if len(plain) <= 63 else naming.label(name, unique=(namespace, name), limit=63)


def remote_name(namespace: str, name: str) -> str:
    """The DNS label that everything of a tier on its workload cluster is named after."""
    return naming.label("kv", name, unique=(namespace, name), limit=40)
