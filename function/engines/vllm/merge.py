"""One KVTransferConfig out of the user's and the tier's.

The user's connector stays first and as written; the tier's comes after it in a MultiConnector,
which loads from the first child with a hit and saves to all. So a transfer connector of the tier's
goes before the user's caches: behind one with half of the blocks it would never be asked for those
that prefill has sent. What cannot stand side by side is refused with both values named; nothing of
the user's is ever overwritten.
"""

import copy
from dataclasses import dataclass
from typing import Any

from function.engines.vllm import connectors
from function.engines.vllm.connectors import MULTI, Connector, apart
from function.kube.access import Json
from function.names import MODULE_PREFIX
from function.problems import Refused
from function.reasons import Reason

# The offload that runs inside an OffloadingConnector, and its module.
_SPEC, _SPEC_MODULE = "spec_name", "spec_module_path"
_DEFAULT_SPEC = "CPUOffloadingSpec"
EXTRA = "kv_connector_extra_config"
POLICY = "kv_load_failure_policy"

# Fields of the whole engine: MultiConnector passes its own engine_id to the children, and the
# scheduler reads the failure policy at the top only.
_TOP_ONLY = ("engine_id", POLICY)
# Fields of one connector.
_CHILD_ONLY = ("kv_connector", EXTRA, "kv_connector_module_path")


@dataclass(frozen=True)
class Merged:
    """`config`: the one object for --kv-transfer-config, None for none; `notes` for people."""

    config: Json | None
    notes: tuple[str, ...] = ()


def merge(user: Json | None, connector: Json | None, options: Json | None = None) -> Merged:
    """Merge the user's effective config with the tier's `connector` and top-level `options`.

    Raises Refused(Reason.CONNECTOR_CONFLICT). Merging what is already merged returns it unchanged.
    """
    user = copy.deepcopy(user)
    connector = copy.deepcopy(connector)
    options = dict(options or {})
    if connector is None:
        return Merged(user)
    connector.setdefault("kv_role", "kv_both")
    if not user or not user.get("kv_connector"):
        return _finish(_fill({**(user or {})}, {**connector, **options}, ""), options)
    row = _connector_row(user)
    ours = _connector_row(connector)
    if row.kind == "multi":
        return _into_multi(user, connector, ours, options)
    if row.name == ours.name:
        return _finish(_complete(user, connector, ""), options)
    _check_compatible(row, ours)
    return _finish(_multi(user, connector, ours), options)


def children(config: Json | None) -> list[Json]:
    """Return the connectors of a config: the children of a MultiConnector, or itself."""
    if not config or not config.get("kv_connector"):
        return []
    if config["kv_connector"] != MULTI:
        return [config]
    listed = (
        config.get(EXTRA, {}).get("connectors") if isinstance(config.get(EXTRA), dict) else None
    )
    return [c for c in listed if isinstance(c, dict)] if isinstance(listed, list) else []


def without_hma(config: Json | None) -> list[str]:
    """Return the connectors of a config that turn vLLM's hybrid memory allocator off."""
    names = [str(child.get("kv_connector")) for child in children(config)]
    return [n for n in names if n in connectors.known() and not connectors.known()[n].hma]


def _finish(config: Json, options: Json) -> Merged:
    notes = []
    for key, value in sorted(options.items()):
        if key in config and config[key] != value:
            notes.append(f"{key} stays {config[key]!r} as the user set it; the tier asks {value!r}")
        config.setdefault(key, value)
    for name in without_hma(config):
        notes.append(
            f"{name} turns vLLM's hybrid KV cache manager off; models with Mamba or linear "
            "attention layers do not start with it"
        )
    return Merged(config, tuple(notes))


def _multi(user: Json, connector: Json, ours: Connector) -> Json:
    top = {k: v for k, v in user.items() if k not in _CHILD_ONLY}
    child = {k: v for k, v in user.items() if k not in _TOP_ONLY}
    top["kv_connector"] = MULTI
    top.setdefault("kv_role", "kv_both")
    child.setdefault("kv_role", top["kv_role"])
    top[EXTRA] = {"connectors": [child]}
    _join(top[EXTRA]["connectors"], connector, ours)
    return top


def _join(listed: list[Json], connector: Json, ours: Connector) -> None:
    listed.insert(0 if ours.kind == "transfer" else len(listed), connector)


def _into_multi(user: Json, connector: Json, ours: Connector, options: Json) -> Merged:
    extra = user.get(EXTRA)
    listed = extra.get("connectors") if isinstance(extra, dict) else None
    if not isinstance(listed, list) or not listed or not all(isinstance(c, dict) for c in listed):
        raise _conflict(
            f"the user's MultiConnector has no list of objects at {EXTRA}.connectors; vLLM stops "
            "on it: write one object per child"
        )
    _lift_engine_id(user, listed)
    same: list[int] = []
    for index, child in enumerate(listed):
        path = f"{EXTRA}.connectors[{index}]"
        row = _connector_row(child, path)
        if row.kind == "multi":
            raise _conflict(f"{path} is itself a MultiConnector; list its children directly")
        if not child.get("kv_role"):
            raise _conflict(f"{path} has no kv_role; vLLM stops on it: add it, as on the others")
        if row.name == ours.name:
            same.append(index)
        else:
            _check_compatible(row, ours)
    if len(same) > 1:
        raise _conflict(f"the user's MultiConnector lists {ours.name} {len(same)} times: keep one")
    if same:
        path = f"{EXTRA}.connectors[{same[0]}]"
        listed[same[0]] = _complete(listed[same[0]], connector, path)
    else:
        _join(listed, connector, ours)
    user.setdefault("kv_role", "kv_both")
    return _finish(user, options)


def _lift_engine_id(user: Json, listed: list[Json]) -> None:
    """Move a single engine_id of the children to the top: vLLM raises TypeError for a child's."""
    ids = {c["engine_id"] for c in listed if c.get("engine_id") is not None}
    top = user.get("engine_id")
    if len(ids | ({top} if top is not None else set())) > 1:
        raise _conflict(
            f"the children of the user's MultiConnector have engine_id {sorted(map(str, ids))}; "
            "vLLM takes one, at the top level"
        )
    for child in listed:
        child.pop("engine_id", None)
    if ids:
        user["engine_id"] = ids.pop()


def _connector_row(config: Json, path: str = "") -> Connector:
    name = str(config.get("kv_connector"))
    where = f"{path} has" if path else "--kv-transfer-config has"
    row = connectors.known().get(name)
    if row is None:
        raise _conflict(f"{where} {name}, which is not known to work beside another connector")
    module = config.get("kv_connector_module_path")
    if module and not str(module).startswith((*row.modules, MODULE_PREFIX)):
        raise _conflict(
            f"{where} {name} from the module {module}, which is not known to work beside another "
            "connector"
        )
    return row


def _check_compatible(row: Connector, ours: Connector) -> None:
    if row.kind == "closed":
        raise _conflict(
            f"--kv-transfer-config has {row.name}, the tier brings {ours.name}: {row.why}; remove "
            f"{row.name} or the tier"
        )
    if why := apart(row, ours):
        raise _conflict(
            f"--kv-transfer-config has {row.name}, the tier brings {ours.name}: {why}; remove "
            f"{row.name} or the tier"
        )


def _complete(user: Json, connector: Json, path: str) -> Json:
    """Return the user's own copy of the tier's connector: completed, never changed."""
    _check_same_offload(user.get(EXTRA), connector.get(EXTRA), path)
    return _fill(
        user, {k: v for k, v in connector.items() if k != "kv_role" or k not in user}, path
    )


def _check_same_offload(user: Any, ours: Any, path: str) -> None:
    """Raise Refused where the user's OffloadingConnector runs another offload than the tier's.

    Its settings name what runs inside; another one would never read the tier's settings.
    """
    theirs, tiers = (value if isinstance(value, dict) else {} for value in (user, ours))
    default = tiers.get(_SPEC, _DEFAULT_SPEC)
    spec = theirs.get(_SPEC, default)
    module = theirs.get(_SPEC_MODULE)
    if module is None and spec in {default, _DEFAULT_SPEC}:
        return
    where = f"{path}.{EXTRA}" if path else EXTRA
    raise _conflict(
        f"the user's {where} names an offload of its own ({spec}{f' of {module}' if module else ''}"
        "), which the tier's settings do not reach; remove it, or the tier"
    )


def _fill(user: Json, ours: Json, path: str) -> Json:
    for key, value in ours.items():
        here = f"{path}.{key}" if path else key
        if key not in user:
            user[key] = value
        elif isinstance(user[key], dict) and isinstance(value, dict):
            _fill(user[key], value, here)
        elif not _equal(key, user[key], value) and key != POLICY:
            raise _conflict(
                f"the user's {here} is {user[key]!r}, the tier's is {value!r}: make them equal, or "
                "remove the user's"
            )
    return user


def _equal(key: str, user: Any, ours: Any) -> bool:
    # Its bare host is taken as tcp://HOST.
    if any(key in row.hosts for row in connectors.known().values()):
        user, ours = (v if "://" in str(v) else f"tcp://{v}" for v in (user, ours))
    return user == ours and isinstance(user, bool) == isinstance(ours, bool)


def _conflict(message: str) -> Refused:
    return Refused(Reason.CONNECTOR_CONFLICT, message)
