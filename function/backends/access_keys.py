"""Access keys of buckets, in the environment: an argument would show them in the pod."""

from function.api.trust import AccessKeySecret
from function.contract.backend import Manifest
from function.kube import manifests as k

# As AWS's libraries read them, which NIXL's plugin and LMCache use.
NAMES = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")


def env(secret: AccessKeySecret | None) -> tuple[Manifest, ...]:
    """Return the variables of an access key, none without a Secret."""
    if secret is None:
        return ()
    keys = (secret.access_key_id_key, secret.secret_access_key_key)
    return tuple(
        k.env_secret(name, secret.name, key) for name, key in zip(NAMES, keys, strict=True)
    )
