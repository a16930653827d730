"""Strategic merge patches, as Kubernetes applies them to a pod template."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from function.workloads import strategic_merge

ONE = {"name": "a", "image": "x", "args": ["1"], "env": [{"name": "A", "value": "1"}]}
BASE = {
    "spec": {"containers": [ONE, {"name": "b"}], "hostIPC": True, "tolerations": [{"key": "t"}]}
}

MERGED = {
    "objects by field": ({"spec": {"hostIPC": False}}, {**BASE["spec"], "hostIPC": False}),
    "null removes": (
        {"spec": {"hostIPC": None}},
        {k: v for k, v in BASE["spec"].items() if k != "hostIPC"},
    ),
    "plain lists are replaced": (
        {"spec": {"tolerations": [{"key": "u"}]}},
        {**BASE["spec"], "tolerations": [{"key": "u"}]},
    ),
    "keyed lists by key, new items at the end": (
        {"spec": {"containers": [{"name": "c"}, {"name": "a", "args": ["2"]}]}},
        {**BASE["spec"], "containers": [{**ONE, "args": ["2"]}, {"name": "b"}, {"name": "c"}]},
    ),
    "keyed lists within": (
        {
            "spec": {
                "containers": [
                    {
                        "name": "a",
                        "env": [{"name": "B", "value": "2"}, {"name": "A", "value": "3"}],
                    }
                ]
            }
        },
        {
            **BASE["spec"],
            "containers": [
                {**ONE, "env": [{"name": "A", "value": "3"}, {"name": "B", "value": "2"}]},
                {"name": "b"},
            ],
        },
    ),
    "an item is deleted": (
        {"spec": {"containers": [{"name": "b", "$patch": "delete"}]}},
        {**BASE["spec"], "containers": [ONE]},
    ),
    "an object is replaced": (
        {"spec": {"$patch": "replace", "containers": []}},
        {"containers": []},
    ),
}


@pytest.mark.parametrize("name", MERGED)
def test_merged_patch_equals_kubernetes(name):
    patch, wanted = MERGED[name]
    assert strategic_merge.merge(BASE, patch) == {"spec": wanted}


@pytest.mark.parametrize(
    "patch",
    [
        {"spec": {"$setElementOrder/containers": []}},
        {"spec": {"$patch": "delete"}},
        {"spec": {"containers": [{"image": "no name"}]}},
    ],
)
def test_unknown_list_keys_are_refused(patch):
    with pytest.raises(strategic_merge.Unsupported):
        strategic_merge.merge(BASE, patch)


ITEM = st.fixed_dictionaries(
    {"name": st.sampled_from("abc")},
    optional={"value": st.sampled_from("12"), "args": st.lists(st.sampled_from("xy"), max_size=2)},
)
TEMPLATE = st.fixed_dictionaries(
    {},
    optional={
        "env": st.lists(ITEM, max_size=3, unique_by=lambda i: i["name"]),
        "tolerations": st.lists(st.sampled_from("pq"), max_size=2),
        "labels": st.dictionaries(st.sampled_from("lm"), st.sampled_from("12")),
    },
)


def sorted_env(document):
    if "env" in document:
        document["env"] = sorted(document["env"], key=lambda i: i["name"])
    return document


@given(TEMPLATE, TEMPLATE, TEMPLATE)
def test_two_patches_combine(base, patch, wanted):
    have = strategic_merge.merge(base, patch)
    try:
        second = strategic_merge.diff(have, wanted)
    except strategic_merge.Unsupported:
        return
    assert sorted_env(
        strategic_merge.merge(base, strategic_merge.compose(patch, second))
    ) == sorted_env(wanted)


@given(TEMPLATE, TEMPLATE)
def test_diff_turns_one_template_into_the_other(have, wanted):
    try:
        patch = strategic_merge.diff(have, wanted)
    except strategic_merge.Unsupported:
        return
    assert sorted_env(strategic_merge.merge(have, patch)) == sorted_env(wanted)
