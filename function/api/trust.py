"""Certificates that an engine is to trust."""

from pydantic import Field

from function.api import fields as f
from function.api.base import ApiModel, Rule


class TrustBundle(ApiModel):
    """Certificates of authorities, in a ConfigMap of the engines' namespace.

    trust-manager writes such a ConfigMap into every namespace. A pod does not start without it.
    """

    name: f.DnsName = Field(description="Name of the ConfigMap.")
    key: f.SecretKey = Field(
        default="ca.crt", description="Its key that holds the certificates, in PEM."
    )


# Of an object with `endpoint`, a URL, and `caConfigMap`.
OF_HTTPS = Rule(
    "!has(self.caConfigMap) || self.endpoint.startsWith('https:')",
    "caConfigMap needs an endpoint with https",
    "caConfigMap",
)
