"""docs/commands.md: how a container's command is read and edited, and the limits of that."""

from function.command import OPT_IN
from function.command.budget import ARGUMENT_BYTES, LIMITS, SHELLS_DEEP
from kv_offload.docs.markdown import HEADER, page, table


def text() -> str:
    limits = [(f"{limit.most:,} {limit.what}", limit.why, limit.fix) for limit in LIMITS.values()]
    return page(
        [
            HEADER.format(source="function/command"),
            "# Commands",
            "",
            "What a container runs is read from its `command`, `args` and `env`, and from what is "
            "known of its image's entrypoint. Flags are added to a plain command line at its end, "
            "to a script (`sh -c`) in its text, behind the engine's own words. The result is read "
            "again: it must run the same commands with the same words, and the new ones in their "
            "place; or the pod is refused, `ArgsNotPatchable`.",
            "",
            f"`${OPT_IN}`, unquoted, in a script of one's own takes the place of an edit: the new "
            "words come by env.",
            "",
            "## Limits",
            "",
            "Pods come from strangers. Reading one command is counted, and ends at these; the pod "
            "is then refused, with the limit in the message.",
            "",
            *table(("At most", "Why", "What to do"), limits),
            "",
            f"An argument or a variable of more than {ARGUMENT_BYTES:,} bytes is refused: Linux "
            f"starts no program with it. Shells in one another are read {SHELLS_DEEP} deep; what "
            "they start below that is not known. Brackets, loops and functions may stand in one "
            "another as deep as they like.",
        ]
    )
