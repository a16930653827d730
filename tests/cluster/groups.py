"""The closing table of an end-to-end run: every group with its tests, assertions and seconds.

A group is a test module; its title is the first line of the module's docstring.
"""

from collections import defaultdict
from dataclasses import dataclass, field

import pytest


@dataclass
class Group:
    title: str = ""
    passed: int = 0
    failed: int = 0
    skipped: int = 0
    assertions: int = 0
    seconds: float = 0
    notes: list[str] = field(default_factory=list)


class Summary:
    """A pytest plugin; `note` adds a measured figure to the group that runs."""

    def __init__(self) -> None:
        self.groups: dict[str, Group] = defaultdict(Group)
        self.running = ""

    def note(self, text: str) -> None:
        self.groups[self.running].notes.append(text)

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self.running = nodeid.partition("::")[0]

    def pytest_assertion_pass(self, item: pytest.Item) -> None:
        self.groups[self.running].assertions += 1

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        for item in items:
            doc = (item.getparent(pytest.Module).obj.__doc__ or "").strip()
            self.groups[item.nodeid.partition("::")[0]].title = doc.partition("\n")[0].rstrip(".")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        group = self.groups[report.nodeid.partition("::")[0]]
        group.seconds += report.duration
        if report.failed:
            group.failed += 1
        elif report.skipped:
            group.skipped += 1
        elif report.when == "call":
            group.passed += 1

    def pytest_terminal_summary(self, terminalreporter) -> None:
        write = terminalreporter.write_line
        terminalreporter.section("groups")
        width = max((len(group.title) for group in self.groups.values()), default=0) + 1
        write(f"{'group':<{width}}{'passed':>7}{'failed':>7}{'skipped':>8}{'asserts':>8}{'s':>6}")
        for group in self.groups.values():
            counts = f"{group.passed:>7}{group.failed:>7}{group.skipped:>8}{group.assertions:>8}"
            write(f"{group.title:<{width}}{counts}{group.seconds:>6.0f}")
            for note in group.notes:
                write(f"    {note}")
