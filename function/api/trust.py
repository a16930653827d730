"""Certificates that an engine trusts."""

from function.api import fields as f
from function.api.base import ApiModel, FieldRule


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
