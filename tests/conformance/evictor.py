"""The evictor that a tier composes beside a volume, with limits that a test reaches at once."""

import copy
import json
from pathlib import Path
from typing import Any

from tests.conformance.manifests import Manifest, one
from tests.conformance.node import Node


def pod_template(
    node: Node, manifests: list[Manifest], size: int, **settings: Any
) -> tuple[Manifest, str]:
    """Return the pod template for `size` bytes, looking every second, and the name of the tier's
    directory on the volume; the program is on the node. `settings`: of the evictor, besides.
    """
    program = one(manifests, "ConfigMap")
    node.config_maps[program["metadata"]["name"]] = program["data"]
    template = copy.deepcopy(one(manifests, "Deployment")["spec"]["template"])
    (container,) = template["spec"]["containers"]
    told = json.loads(container["args"][0])
    (directory,) = told["directories"]
    directory |= {"bytes": size, "period": 1}
    told["defaults"] |= {"grace": 0, "free": 0, **settings}
    container["args"] = [json.dumps(told)]
    return template, Path(directory["path"]).name
