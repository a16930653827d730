"""Secrets and certificates of stores that a tier only uses."""

from function.api import fields as f
from function.api.base import ApiModel, FieldRule


class SecretKeyRef(ApiModel):
    """One key of a Secret on the workload cluster, in its user's namespace."""

    name: f.DnsName
    key: f.SecretKey


class AccessKeySecret(ApiModel):
    """Keys of a Secret that hold an access key, in the namespace of the pods that use it."""

    name: f.DnsName
    access_key_id_key: f.SecretKey = "accessKeyID"
    secret_access_key_key: f.SecretKey = "secretAccessKey"


class TrustBundle(ApiModel):
    """CA certificates in a ConfigMap of the engines' namespace.

    trust-manager writes such a ConfigMap into every namespace. A pod does not start without it.
    """

    name: f.DnsName
    key: f.SecretKey = "ca.crt"


# For objects with `endpoint`, a URL, and `caConfigMap`.
BUNDLE_NEEDS_HTTPS = FieldRule(
    "!has(self.caConfigMap) || self.endpoint.startsWith('https:')",
    "caConfigMap needs an endpoint with https",
    "caConfigMap",
)
