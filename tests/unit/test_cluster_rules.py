"""Find a rule without an end-to-end row before a control plane is started."""

from tests.cluster.test_50_rules import (
    test_the_table_is_complete_for_deployments,
    test_the_table_is_complete_for_inline_tiers,
    test_the_table_is_complete_for_tiers,
)

__all__ = [
    "test_the_table_is_complete_for_deployments",
    "test_the_table_is_complete_for_inline_tiers",
    "test_the_table_is_complete_for_tiers",
]
