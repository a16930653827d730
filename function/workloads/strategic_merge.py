"""Strategic merge patches of a PodTemplateSpec, as far as manifests use them.

Source: Kubernetes' strategic merge patch and the `patchMergeKey` tags of core/v1. Lists with a
merge key are merged by it, all others are replaced; null removes a field; `$patch: delete` removes
a list item, `$patch: replace` replaces an object. Other directives are refused, not guessed.
"""

from typing import Any

from function.kube.access import Json

DIRECTIVE = "$patch"

# Fields of a pod template that are lists merged by a key.
MERGE_KEYS = {
    "containers": "name",
    "initContainers": "name",
    "ephemeralContainers": "name",
    "volumes": "name",
    "env": "name",
    "volumeMounts": "mountPath",
    "volumeDevices": "devicePath",
    "ports": "containerPort",
    "imagePullSecrets": "name",
    "hostAliases": "ip",
    "topologySpreadConstraints": "topologyKey",
    "resourceClaims": "name",
}


class Unsupported(Exception):
    """A patch with an unknown directive, or a change that no patch expresses."""


def merge(base: Any, patch: Any) -> Any:
    """Return `base` patched, neither changed. Raise Unsupported."""
    if not isinstance(base, dict) or not isinstance(patch, dict):
        return patch
    directive = patch.get(DIRECTIVE)
    if directive == "replace":
        return {k: v for k, v in patch.items() if k != DIRECTIVE}
    unknown = [k for k in patch if k.startswith("$") and k != DIRECTIVE]
    if unknown or directive not in (None, "merge"):
        raise Unsupported(f"The patch directive {(unknown or [DIRECTIVE])[0]} is not supported.")
    out = dict(base)
    for key, value in patch.items():
        if key == DIRECTIVE:
            continue
        if value is None:
            out.pop(key, None)
        elif key in MERGE_KEYS and isinstance(value, list):
            have = out.get(key)
            out[key] = _merge_list(have if isinstance(have, list) else [], value, MERGE_KEYS[key])
        elif isinstance(value, dict):
            have = out.get(key)
            out[key] = merge(have if isinstance(have, dict) else {}, value)
        else:
            out[key] = value
    return out


def compose(first: Any, second: Any) -> Any:
    """Return one patch that does what `first` and then `second` do.

    `second` comes from `diff`.
    """
    if not isinstance(first, dict) or not isinstance(second, dict):
        return second
    out = dict(first)
    for key, value in second.items():
        have = out.get(key)
        if key in MERGE_KEYS and isinstance(value, list) and isinstance(have, list):
            out[key] = _merge_list(have, value, MERGE_KEYS[key], compose)
        else:
            out[key] = compose(have, value)
    return out


def diff(have: Json, wanted: Json) -> Json:
    """Return a patch that turns `have` into `wanted`.

    Raise Unsupported where that would remove a list item.
    """
    out: Json = {k: None for k in have if k not in wanted}
    for key, value in wanted.items():
        before = have.get(key)
        if key in have and before == value:
            continue
        if isinstance(before, dict) and isinstance(value, dict):
            out[key] = diff(before, value)
        elif key in MERGE_KEYS and before and isinstance(before, list) and isinstance(value, list):
            out[key] = _diff_list(before, value, MERGE_KEYS[key])
        else:
            out[key] = value
    return out


def _merge_list(base: list[Any], patch: list[Any], key: str, join: Any = None) -> list[Any]:
    join = join or merge
    out = list(base)
    for item in patch:
        _check_key(item, key)
        places = [
            i for i, have in enumerate(out) if isinstance(have, dict) and have.get(key) == item[key]
        ]
        if item.get(DIRECTIVE) == "delete":
            out = [have for i, have in enumerate(out) if i not in places]
        elif places:
            out[places[-1]] = join(out[places[-1]], item)
        else:
            out.append(join({}, item))
    return out


def _check_key(item: Any, key: str) -> None:
    if not isinstance(item, dict) or not isinstance(item.get(key), str | int):
        raise Unsupported(f"An item of a list that is merged by {key} has no {key}.")


def _diff_list(have: list[Any], wanted: list[Any], key: str) -> list[Any]:
    for item in (*have, *wanted):
        _check_key(item, key)
    before = {item[key]: item for item in have}
    if not before.keys() <= {item[key] for item in wanted}:
        raise Unsupported("A list item is removed.")
    return [
        {key: item[key], **diff(before[item[key]], item)} if item[key] in before else item
        for item in wanted
        if before.get(item[key]) != item
    ]
