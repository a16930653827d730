"""Shapes of public workloads, each judged by hand for the smallest tier of every backend.

A shape (one document in `shapes/*.yaml`) is a manifest of our own, written after what a public
chart, operator or page renders. Unlike the cases of `corpus.py` it goes through the real backends,
so that image, model and accelerator count. It holds
- `after`: the project and what of it; `why`: the judgement in a sentence;
- `workload`: the manifest; `container`: the serving container's index, 0 by default;
  `siblings`: what else is composed with it;
- `verdicts`: {tier: "wired", a reason, or "no workload" where the kind is not known};
- `argv`: {template path: its engines' command lines without the tier's own words}, where at least
  one tier is wired; `connectors`: the user's own, which stay.

docs/shapes.md is generated from them: `python -m tests.corpus.judged`.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from function import names, workloads
from function.api.consumer import KVOffloadTierRef
from function.api.input import Input
from function.backends.registry import BACKENDS
from function.composers import tier_plan
from function.composers.tier_plan import TierPlan
from function.edge.structs import encode
from function.pods import wire
from function.pods.offload_request import find
from function.pods.siblings import SiblingResources
from function.problems import Refused
from function.workloads.model import POD, Template
from kv_offload.docs.markdown import page

Json = dict[str, Any]

WIRED, NO_WORKLOAD = "wired", "no workload"
# The smallest tier of each backend, and what it adds to a command line.
TIERS: Mapping[str, Json] = {
    "Native": {"backend": "Native", "native": {"cpu": {"sizeGiB": 64}}},
    "NodeServer": {"backend": "LMCache", "lmcache": {"l1": {"sizeGiB": 100}}},
    "InProcess": {
        "backend": "LMCache",
        "lmcache": {"mode": "InProcess", "inProcess": {"memoryGiB": 20}},
    },
    "Mooncake": {"backend": "Mooncake", "mooncake": {"store": {"sizeGiB": 200}}},
    "HiCache": {"backend": "HiCache", "hicache": {"host": {"sizeGiB": 100}}},
}
CONNECTORS = {
    "Native": "OffloadingConnector",
    "NodeServer": "LMCacheMPConnector",
    "InProcess": "LMCacheConnectorV1",
    "Mooncake": "MooncakeStoreConnector",
}
_NODES = {"nodes": {"selector": {"nvidia.com/gpu.present": "true"}}}
_AGENTS = ("NodeServer", "Mooncake")


def _load() -> dict[str, Json]:
    found: dict[str, Json] = {}
    for path in sorted(Path(__file__).with_name("shapes").glob("*.yaml")):
        for shape in yaml.safe_load_all(path.read_text()):
            name = f"{path.stem}: {shape['name']}"
            assert name not in found, f"two shapes are called {name}"
            found[name] = shape
    return found


SHAPES = _load()


_PAYLOAD = {"repository": "registry.example.com/kv-offload-payload", "tag": "v0.1.0"}
_TAKES_PAYLOAD = ("LMCache", "Mooncake")


def planned(tier: str, *, payload: bool = False) -> TierPlan:
    """The smallest tier of that name on one cluster; with a payload, where it takes one."""
    spec = {
        "inferenceClusterRef": {"name": "any"},
        **(_NODES if tier in _AGENTS else {}),
        **TIERS[tier],
    }
    if payload and spec["backend"] in _TAKES_PAYLOAD:
        spec["payload"] = _PAYLOAD
    found = tier_plan.plan("platform", tier.lower(), spec, encode(spec), BACKENDS)
    assert isinstance(found, TierPlan), found
    return found


def wired(workload: Json, plan: TierPlan, siblings: Iterable[Json] = ()) -> wire.Wired | None:
    """The workload wired to the tier that its composite names; None where it is none that is known.
    Raises Refused."""
    ref = KVOffloadTierRef(name=plan.tier.name, namespace=plan.tier.namespace)
    asked = find("engine", workload, ref, Input(), "", SiblingResources.among(siblings))
    if asked is None:
        return None
    if asked.refused is not None:
        raise asked.refused
    return wire.wire(asked, plan.tier, plan.backend, "chat-files")


def verdict(workload: Json, plan: TierPlan, siblings: Iterable[Json] = ()) -> tuple[str, str]:
    """What becomes of it, and the sentence that a person reads."""
    try:
        found = wired(workload, plan, siblings)
    except Refused as refused:
        return str(refused.reason), str(refused)
    return (WIRED, found.summary) if found else (NO_WORKLOAD, "")


def taken_off(argv: list[str]) -> tuple[list[str], list[str], list[str]]:
    """A started engine's words without what a tier adds, the connectors in it, and the flags that
    were taken off."""
    own, connectors, flags = [], [], []
    words = iter(argv)
    for word in words:
        if word.startswith("--kv-transfer-config"):
            value = word.partition("=")[2] or next(words)
            connectors += list(_connectors(json.loads(value)))
        elif word in SGLANG_FLAGS:
            flags.append(word)
            if SGLANG_FLAGS[word]:
                next(words)
        else:
            own.append(word)
    return own, connectors, flags


# Of SGLang's flags those that a tier sets: whether a value follows.
SGLANG_FLAGS = {
    "--enable-hierarchical-cache": False,
    "--enable-lmcache": False,
    "--lmcache-config-file": True,
    "--hicache-io-backend": True,
    "--hicache-mem-layout": True,
    "--hicache-size": True,
    "--hicache-ratio": True,
    "--hicache-write-policy": True,
    "--hicache-storage-backend": True,
    "--hicache-storage-backend-extra-config": True,
    "--hicache-storage-prefetch-policy": True,
    "--page-size": True,
}


def _connectors(config: Json) -> Iterator[str]:
    inner = config.get("kv_connector_extra_config", {}).get("connectors")
    if config["kv_connector"] == "MultiConnector":
        for each in inner:
            yield from _connectors(each)
    else:
        yield config["kv_connector"]


def templates(workload: Json) -> dict[str, Json]:
    found = workloads.find(workload)
    return {t.path: dict(t.body) for t in found.templates} if found else {}


# What a person declares of an image of their own, and the newest stock image, by engine.
_HELD = "lmcache=0.5.6,mooncake=0.3.13,nixl=1.5.1"
NEWEST = {
    "vLLM": ("0.33.0", "vllm/vllm-openai:v0.33.0"),
    "SGLang": ("0.5.23", "lmsysorg/sglang:v0.5.23"),
}


def _engine(shape: Json) -> str:
    return "SGLang" if "sglang" in json.dumps(shape["workload"]) else "vLLM"


def _engines(shape: Json) -> list[Template]:
    """The templates of pods that start the engine; all of them where no tier wires any."""
    found = workloads.find(shape["workload"])
    paths = shape.get("argv")
    return [
        template
        for template in (found.templates if found else ())
        if template.kind == POD and (paths is None or template.path in paths)
    ]


def _as_is(shape: Json) -> Json:
    workload: Json = shape["workload"]
    return workload


def declared(shape: Json) -> Json:
    """Return the workload whose pods declare their engine, its version and its packages."""
    workload, engine = shape["workload"], _engine(shape)
    said = {
        names.ANNOTATION_ENGINE: engine,
        names.ANNOTATION_ENGINE_VERSION: NEWEST[engine][0],
        names.ANNOTATION_PACKAGES: _HELD,
    }
    for template in _engines(shape):
        metadata = template.body.get("metadata") or {}
        annotations = {**said, **(metadata.get("annotations") or {})}
        body = {**template.body, "metadata": {**metadata, "annotations": annotations}}
        workload = workloads.replace(workload, template, body)
    return workload


def with_newest_image(shape: Json) -> Json:
    """Return the workload with the newest stock image in its serving containers."""
    workload, at = shape["workload"], shape.get("container", 0)
    for template in _engines(shape):
        spec = template.body["spec"]
        containers = list(spec.get("containers") or ())
        if at < len(containers) and containers[at].get("image"):
            containers[at] = {**containers[at], "image": NEWEST[_engine(shape)][1]}
            body = {**template.body, "spec": {**spec, "containers": containers}}
            workload = workloads.replace(workload, template, body)
    return workload


def _reach() -> list[str]:
    """The table of how many shapes each tier wires."""
    ways = {
        "as is": (_as_is, False),
        "with a payload": (_as_is, True),
        "declared": (declared, False),
        "newest image": (with_newest_image, False),
    }
    lines = [f"| tier | {' | '.join(ways)} |", "|---" * (len(ways) + 1) + "|"]
    for tier in TIERS:
        plans = {payload: planned(tier, payload=payload) for payload in (False, True)}
        counts = [
            sum(
                verdict(way(s), plans[payload], s.get("siblings", ()))[0] == WIRED
                for s in SHAPES.values()
            )
            for way, payload in ways.values()
        ]
        lines.append(f"| {tier} | {' | '.join(map(str, counts))} |")
    return lines


def text() -> str:
    """docs/shapes.md."""
    wired_at_all = sum(WIRED in shape["verdicts"].values() for shape in SHAPES.values())
    lines = [
        "<!-- Generated from tests/corpus/shapes by `python -m tests.corpus.judged`; edit those,"
        " not this page. -->",
        "# What happens to public workloads?",
        "",
        "Workloads as public charts, operators and guides write them, with a request for the "
        "smallest tier of each backend. Verdicts are by hand, and a test holds the code to them. "
        "*Wired by*: only the connector is added. Others refuse, and the condition says why. "
        "NodeServer and InProcess are modes of LMCache. "
        f"A shape is a {_USUAL} unless its kind is named. Sources: "
        f"`tests/corpus/shapes`. {wired_at_all} of {len(SHAPES)} are wired by some backend. "
        "By tier as they are, with a payload (`spec.payload`), with the newest engine and packages "
        "declared, and with the newest stock image:",
        "",
        *_reach(),
    ]
    groups: dict[tuple[str, ...], list[Json]] = {}
    for shape in SHAPES.values():
        wired_by = tuple(tier for tier in TIERS if shape["verdicts"][tier] == WIRED)
        groups.setdefault(wired_by, []).append(shape)
    for wired_by, shapes in sorted(groups.items(), key=lambda each: -len(each[0])):
        lines += ["", f"## Wired by {', '.join(wired_by) or 'none'}", ""]
        lines += [
            f"- **{shape['name']}**{_origin(shape)}" + ("" if wired_by else f": {shape['why']}")
            for shape in shapes
        ]
    return page(lines)


_USUAL = "Deployment"


def _origin(shape: Json) -> str:
    kind: str = shape["workload"]["kind"]
    project = shape["after"].partition(",")[0]
    named = project.split()[0].lower() in shape["name"].lower()
    told = [kind] * (kind != _USUAL and kind not in f"{shape['name']} {project}")
    told += [project] * (not named)
    return f" ({'; '.join(told)})" if told else ""


PAGE = Path(__file__).parents[2] / "docs" / "shapes.md"

if __name__ == "__main__":
    PAGE.write_text(text())
