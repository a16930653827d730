"""What an image says of itself by its name, and by the variables that its pod repeats."""

import re
from collections.abc import Mapping

from function.api.packages import PACKAGES
from function.contract.packages import STATED, Fact
from function.contract.versions import parse

_SAID = tuple(name for name, package in PACKAGES.items() if package.said)
# vllm:0.33.0-mooncake0.3.12, sglang-mooncake-v0.3.13:x, serve:vllm0.32.0-lmcache0.5.6
_IN_NAME = re.compile(rf"(?:^|[-_./:])({'|'.join(_SAID)})[-_.]?v?(\d+\.\d+\.\d+)(?![\d.]*\d)")


def named(image: str, env: Mapping[str, str | None]) -> Mapping[str, Fact]:
    """Return the packages named by an image's name or a literal variable of the container."""
    found = {
        name: Fact((version,), STATED, "the image's name", declared=True)
        for name, version in _IN_NAME.findall(image.partition("@")[0])
        if parse(version)
    }
    for name in _SAID:
        variable = f"{name.upper()}_VERSION"
        if (text := env.get(variable)) and (version := parse(text)):
            found[name] = Fact((str(version),), STATED, f"env {variable}", declared=True)
    return found
