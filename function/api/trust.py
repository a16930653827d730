"""Secrets and certificates of stores that a tier only uses."""

from function.api import fields as f
from function.api.base import ApiModel, FieldRule


class SecretKeyRef(ApiModel):
    """One key of a Secret on the workload cluster, in its user's namespace."""

    name: f.DnsName
    """Name of the Secret."""
    key: f.SecretKey
    """Key in the Secret."""


class AccessKeySecret(ApiModel):
    """Keys of a Secret that hold an access key, in the namespace of the pods that use it."""

    name: f.DnsName
    """Name of the Secret."""
    access_key_id_key: f.SecretKey = "accessKeyID"
    """Key that holds the access key's id."""
    secret_access_key_key: f.SecretKey = "secretAccessKey"
    """Key that holds the secret access key."""


class TrustBundle(ApiModel):
    """CA certificates in a ConfigMap of the engines' namespace.

    trust-manager writes such a ConfigMap into every namespace. A pod does not start without it.
    """

    name: f.DnsName
    """Name of the ConfigMap."""
    key: f.SecretKey = "ca.crt"
    """Key with the certificates, in PEM."""


# For objects with `endpoint`, a URL, and `caConfigMap`.
BUNDLE_NEEDS_HTTPS = FieldRule(
    "!has(self.caConfigMap) || self.endpoint.startsWith('https:')",
    "caConfigMap needs an endpoint with https",
    "caConfigMap",
)
