"""docs/commands.md: how a container's command is read and edited, and the limits of that."""

from function.command import OPT_IN
from function.command.budget import ARGUMENT_BYTES, LIMITS, SHELLS_DEEP
from kv_offload.docs.markdown import HEADER, page, table


def text() -> str:
    """Return the page."""
    limits = [
        (f"{limit.most:,} {limit.what}", f"{limit.call:,}", limit.fix) for limit in LIMITS.values()
    ]
    return page(
        [
            HEADER.format(source="function/command"),
            "# How is a container's command read and edited?",
            "",
            "The engine's command is read from `command`, `args`, `env` and the image's known "
            "entrypoint. Flags are appended to a plain command line, or inserted into a script "
            "(`sh -c`) after the engine's own words. The result is read again. It must run the "
            "same commands with the same words plus the new ones; otherwise the pod is refused "
            "(`ArgsNotPatchable`).",
            "",
            f"`${OPT_IN}`, unquoted in your own script, needs no edit: it is set by environment. "
            f"Under `set -u` write `${{{OPT_IN}:-}}`: an unwired pod has no such variable. It is "
            "read among the words of the engine's own command, not in an array, and refused where "
            "the script changes `IFS` for more than one command: the flags would be one word.",
            "",
            "## Limits",
            "",
            "Beyond these limits the pod is refused, and the message names the limit. All "
            "containers of a composite share a second limit, once for reading and once for "
            "editing. Workloads that run are read before new ones, then in the order of their "
            "keys; each that meets the end is refused, and what runs stays. "
            "`function/command/limits.yaml` has the reasons.",
            "",
            *table(("A container at most", "All of a composite", "What to do"), limits),
            "",
            f"An argument or variable of more than {ARGUMENT_BYTES:,} bytes is refused: Linux "
            f"starts no program with it. Nested shells are read {SHELLS_DEEP} deep.",
        ]
    )
