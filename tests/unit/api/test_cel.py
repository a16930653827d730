"""CEL in Python: the meaning of each construct, and refused expressions."""

from typing import Any

import pytest

from function.api.cel import predicate

SELF: dict[str, Any] = {
    "absent": None,
    "first": 3,
    "from": "Names",
    "items": [{"name": "a"}, {"name": "b"}],
    "labels": {"x/a": "1"},
    "namespace": "kv",
    "off": False,
    "on": True,
    "text": "etcd://a;b",
}

HOLD = (
    "has(self.first) && !has(self.absent)",
    "!self.off || self.on && self.off",
    "!self.off == self.on",
    "self.first + 2 - 1 >= 4 && self.first != 4",
    "self.__namespace__ == 'kv'",
    "self.__namespace__ in ['a', 'kv'] && !(self.first in [1, 2])",
    "self.from == 'Names' ? size(self.items) > 0 : size(self.items) == 0",
    "(has(self.absent) ? 0 : self.first) + (self.on ? 3 : 1) <= 6",
    "self.items.size() == 2 && self.items[0].name == 'a'",
    "self.items.exists(i, i.name == 'b') && self.items.all(i, i.name != 'c')",
    "self.items.exists_one(i, i.name == 'a')",
    "[has(self.absent), has(self.on)].exists_one(x, x)",
    "[1, 2].all(p, [1, 2].exists_one(q, p == q))",
    "self.labels.all(k, k.startsWith('x/'))",
    "self.text.startsWith('etcd://') && self.text.contains(';')",
)

NO_RULES = ("", "self.a @ 1", "self.a ==", "has(self.a", "self.a 1", "size(self.a, self.b)")


@pytest.mark.parametrize("cel", HOLD)
def test_a_rule_holds_and_its_opposite_does_not(cel: str) -> None:
    assert predicate(cel)(SELF)
    assert not predicate(f"!({cel})")(SELF)


@pytest.mark.parametrize("cel", NO_RULES)
def test_unsupported_expressions_are_refused(cel: str) -> None:
    with pytest.raises((ValueError, SyntaxError)):
        predicate(cel)
