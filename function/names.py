"""The names by which users, tiers, consumers and the fleet find each other."""

from function.kube import naming

GROUP = "modelplane.ai"
VERSION = "v1alpha1"
API_VERSION = f"{GROUP}/{VERSION}"
USAGE_API_VERSION = "protection.crossplane.io/v1beta1"

# Where tiers stand unless the consumer says otherwise.
TIER_NAMESPACE = "modelplane-system"

_PREFIX = f"{GROUP}/kv-offload"

# How the Python modules of ours begin that engines import, around classes of others.
MODULE_PREFIX = "kv_offload_"

# How everything of ours begins that users write or that we write on others' documents.
KEY_PREFIX = f"{GROUP}/kv"

# In the place of a tier's name: whichever takes the pods, of those with the label.
AUTO = "auto"
LABEL_AUTO = f"{_PREFIX}-auto"

# On a pod template, by its author.
ANNOTATION_TIER = f"{_PREFIX}-tier"
ANNOTATION_POLICY = f"{_PREFIX}-policy"
ANNOTATION_ENGINE = f"{_PREFIX}-engine"
ANNOTATION_ENGINE_VERSION = f"{_PREFIX}-engine-version"
ANNOTATION_CACHE_IDENTITY = f"{_PREFIX}-cache-identity"
ANNOTATION_PACKAGES = f"{_PREFIX}-packages"
ANNOTATION_MODEL_FAMILY = f"{_PREFIX}-model-family"

# What users write, and no other key.
USER_ANNOTATIONS = (
    ANNOTATION_TIER,
    ANNOTATION_POLICY,
    ANNOTATION_ENGINE,
    ANNOTATION_ENGINE_VERSION,
    ANNOTATION_CACHE_IDENTITY,
    ANNOTATION_PACKAGES,
    ANNOTATION_MODEL_FAMILY,
)

# On a wired Object, or on a wired workload that is bare: what was injected.
ANNOTATION_RECORD = f"{_PREFIX}-record"
# On wired pods: the tier's remote name.
LABEL_WIRED = _PREFIX
# On a wired pod template: what was added to quantities that its author set.
ANNOTATION_ADDED = f"{_PREFIX}-added"

# On what composes a consumer's ConfigMap: the workloads that mount it, or left it, and count no
# pods.
ANNOTATION_MOUNTED_BY = f"{_PREFIX}-mounted-by"
# On a copy of a packaged Composition: the name of that, and a digest of its spec then.
ANNOTATION_COPY_OF = f"{_PREFIX}-copy-of"

# In a pipeline's context: a call of this reconcile asked for what it did not have.
CONTEXT_ASKED = f"{_PREFIX}-asked"

# On a child tier: the fleet tier (or inline tier) whose name consumers use.
LABEL_FLEET = f"{_PREFIX}-fleet"
# On a child tier: on which ClusterProviderConfig it is, so that consumers there look up it alone.
LABEL_PROVIDER_CONFIG = f"{_PREFIX}-provider-config"
# On a fleet's child: the uid of the InferenceCluster that it was stamped for.
ANNOTATION_CLUSTER = f"{_PREFIX}-cluster-uid"
# On a fleet's child: the revision of the fleet's spec that it was stamped with last, and the same
# once more where the child was not ready then; the fleet's revision before that edit; and "true"
# while the child has not worked since its spec changed.
LABEL_REVISION = f"{_PREFIX}-revision"
ANNOTATION_UNREADY = f"{_PREFIX}-stamped-unready"
ANNOTATION_PREVIOUS = f"{_PREFIX}-previous-revision"
ANNOTATION_UNPROVEN = f"{_PREFIX}-unproven"
# On a Usage: the tier that is used, and the fleet it belongs to.
LABEL_USED_TIER = f"{_PREFIX}-used-tier"
LABEL_USED_FLEET = f"{_PREFIX}-used-fleet"
# On a Usage: who the consumer is (see usage.Consumer), the tier as namespace/name, and what the
# consumer shares there (see usage.Share).
ANNOTATION_CONSUMER = f"{_PREFIX}-consumer"
ANNOTATION_USED_TIER = f"{_PREFIX}-used-tier"
ANNOTATION_SHARES = f"{_PREFIX}-shares"
# On a Usage: how far the consumer is with the tier's wiring (see rollout.Progress).
ANNOTATION_PROGRESS = f"{_PREFIX}-progress"
# On a Usage: the deletion that its consumer has seen while it goes on to use the tier.
ANNOTATION_KEPT = f"{_PREFIX}-kept"
# On a tier's Usages of itself: the tier.
LABEL_OWN_USAGE = f"{_PREFIX}-own-usage"
# On a turn: the generation of the tier that gave it.
ANNOTATION_GENERATION = f"{_PREFIX}-generation"

# What we write ourselves, wherever it comes back from.
OWNED_KEYS = frozenset(
    {
        ANNOTATION_RECORD,
        LABEL_WIRED,
        ANNOTATION_ADDED,
        ANNOTATION_MOUNTED_BY,
        LABEL_FLEET,
        LABEL_PROVIDER_CONFIG,
        LABEL_REVISION,
        LABEL_USED_TIER,
        LABEL_USED_FLEET,
        LABEL_OWN_USAGE,
    }
    | {
        ANNOTATION_CONSUMER,
        ANNOTATION_USED_TIER,
        ANNOTATION_SHARES,
        ANNOTATION_PROGRESS,
        ANNOTATION_KEPT,
    }
)


def reference(namespace: str, name: str) -> str:
    """Return a label value that names a tier: `namespace.name`, or a digest above 63 characters."""
    plain = f"{namespace}.{name}"
    return plain if len(plain) <= 63 else naming.label(name, unique=(namespace, name), limit=63)


def provider_config(name: str) -> str:
    """Return a label value that names a ProviderConfig: its name, or a digest of what is none."""
    is_value = len(name) <= 63 and "/" not in name
    return name if is_value else naming.label(name, unique=(name,), limit=63)


def remote_name(namespace: str, name: str) -> str:
    """Return the DNS label that prefixes everything of a tier on its workload cluster."""
    return naming.label("kv", name, unique=(namespace, name), limit=40)
