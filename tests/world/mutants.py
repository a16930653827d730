"""Mutants of the code that rolls, holds back, marks and keeps: `python -m tests.world.mutants`.

Each is one change of one file, in a copy of the tree. A unit test of the composers must fail with
it, or the world must break a rule; one that survives both shows what nobody checks. The tests that
are about the file run first, so that most mutants cost seconds; all of them run where these pass.
`--only-world` shows what the world alone finds.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parents[2]
_COPIED = ("function", "tests")
_ROLLOUT, _WAVES = "function/composers/rollout.py", "function/composers/waves.py"
_FLEET = "function/composers/fleet_rollout.py"
_REPORT = "function/composers/fleet_rollout_report.py"
_CONSUMER = "function/composers/consumer/"
_UNLISTED = "function/composers/unlisted.py"
_ROLLED = "function/workloads/rolled.py"
_QUARANTINE, _AUTO = "function/composers/quarantine.py", "function/composers/auto.py"

_IN_USE = "function/composers/in_use.py"
_USAGE, _ADMISSION = "function/composers/usage.py", "function/composers/admission.py"

_APPLIED = _CONSUMER + "applied.py"
_GUARD = "function/composers/provider_config_guard.py"
# The unit tests that are about a file: they run before the others.
_FIRST = {
    _ROLLOUT: ("test_wiring_update", "test_quarantine"),
    _WAVES: ("test_waves", "test_overrides"),
    _FLEET: ("test_waves", "test_overrides"),
    _REPORT: ("test_waves", "test_overrides"),
    "function/composers/fleet.py": ("test_tier", "test_waves"),
    _USAGE: ("test_usage", "test_leaving", "test_wiring_update"),
    _ADMISSION: ("test_usage",),
    _QUARANTINE: ("test_quarantine",),
    _AUTO: ("test_auto",),
    "function/edge/request.py": ("test_wiring_update", "test_tier", "test_unlisted"),
    _UNLISTED: ("test_unlisted",),
    "function/fn.py": ("test_tier", "test_unlisted"),
}
_FIRST_OF_CONSUMERS = (
    "test_decisions",
    "test_records",
    "test_consumer",
    "test_wiring_update",
    "test_auto",
)

_SAID = "        return replace(outcome, progress=progress"

# (file, what is there, what stands there instead)
MUTANTS: tuple[tuple[str, str, str], ...] = (
    (_FLEET, "(m.refused or m.unproven)", "m.refused"),
    (_FLEET, "member.lost) and not member.unproven", "member.lost)"),
    (_WAVES, "asked = not proven and any(", "asked = False and any("),
    (_WAVES, "halted = refused or any(", "halted = refused and any("),
    (_WAVES, "if old or any(m.done for m in members):", "if True:"),
    (_USAGE, "if owners and not access.controller(owners):", "if False:"),
    (_USAGE, "return bool(deleted) and deleted != kept", "return bool(deleted)"),
    (_USAGE, "return bool(deleted) and deleted != kept", "return False"),
    (_USAGE, "if deleted := call.observed_value(key, *_DELETED):", "if deleted := None:"),
    # What the cluster has
    (_APPLIED, "if is_read_only or (why and not call.is_applied(key)):", "if is_read_only or why:"),
    (_APPLIED, "if is_read_only or (why and not call.is_applied(key)):", "if is_read_only:"),
    ("function/kube/objects.py", '("*", "Update") if exists', '("*",) if exists'),
    (_APPLIED, "    if not has(", "    if has("),
    (_APPLIED, "access.at(desired, *path) or call", "call"),
    (_APPLIED, "if not written or not call.has_passed(written + _SECONDS):", "if not written:"),
    (_APPLIED, "if not written or not call.has_passed(written + _SECONDS):", "if True:"),
    (_APPLIED, "is_written = synced and applied in", "is_written = applied in"),
    (_APPLIED, "applied in (None, call", "applied in (call"),
    (_APPLIED, "    if applied is None or not is_written:", "    if not is_written:"),
    (_APPLIED, "    if applied is None or not is_written:", "    if applied is None:"),
    (_APPLIED, "_DIFFERS if is_shown else", "_DIFFERS if True else"),
    (_APPLIED, 'if not entry.get("subresource")', ""),
    # Who is looked up
    (_CONSUMER + "lookup.py", "    if _serves_child(request, ref):", "    if False:"),
    (_CONSUMER + "lookup.py", "    if _serves_child(request, ref):", "    if True:"),
    (
        _CONSUMER + "lookup.py",
        "        children = everywhere\n    if children is None",
        "    if children is None",
    ),
    ("function/composers/fleet.py", "str(config or self.configs", "str(self.configs"),
    # What a composite does not list any more
    (_UNLISTED, "if call.anything_observed:", "if False:"),
    (_UNLISTED, "str(root or call", "str(call"),
    ("function/fn.py", "unlisted.usages(call) | answer", "answer"),
    (_UNLISTED, " or call.is_leaving(key)", ""),
    (_UNLISTED, ".difference(call.desired_keys())", ""),
    ("function/edge/request.py", "and is_own and", "and"),
    ("function/edge/request.py", "not home or namespace == home", "True"),
    ("function/fn.py", "            call.observe_required(name)\n", "            pass\n"),
    # Turns
    (_ROLLOUT, "max(1, needed(", "max(2, needed("),
    (_ROLLOUT, "most - len({*moving, *given})", "most - len({*given})"),
    (_ROLLOUT, "most - len({*moving, *given})", "most"),
    (_ROLLOUT, " if ready else 0", ""),
    (_ROLLOUT, "return max(found, key", "return min(found, key"),
    (_ROLLOUT, "if name not in given][:free]", "if name not in given]"),
    (_ROLLOUT, "(*behind, *moving) if _key", "behind if _key"),
    (_ROLLOUT, "sorted({*given, *new})", "sorted(new)"),
    (
        _CONSUMER + "decision.py",
        "is_behind and rolls and turns.is_turn",
        "is_behind or turns.is_turn",
    ),
    (
        _CONSUMER + "turns.py",
        "return any(rollout.is_of(each,",
        "return True or any(rollout.is_of(each,",
    ),
    (_ROLLOUT, "return is_now and not", "return not"),
    (
        _ROLLOUT,
        "return is_now and not access.text(turn,",
        "return is_now and True or access.text(turn,",
    ),
    (
        _CONSUMER + "decision.py",
        "progress=Progress.MOVING, settled=False)",
        "progress=Progress.CURRENT, settled=False)",
    ),
    (
        _CONSUMER + "decision.py",
        "turns.progress_of_pods(self.call, request)\n" + _SAID + ")",
        "Progress.CURRENT\n" + _SAID + ")",
    ),
    (
        _CONSUMER + "decision.py",
        "turns.progress_of_pods(self.call, request)\n" + _SAID + ",",
        "Progress.CURRENT\n" + _SAID + ",",
    ),
    (
        _CONSUMER + "decision.py",
        'rolls = update.update == "Rolling" and recorded.is_record_of(request, found)',
        'rolls = update.update == "Rolling"',
    ),
    (
        _CONSUMER + "decision.py",
        "is_behind = same and wired.record.wiring",
        "is_behind = False and wired.record.wiring",
    ),
    (_CONSUMER + "turns.py", "is_up = not moves or", "is_up = True or"),
    ("function/edge/request.py", "return access.holds(there, wanted, but=but)", "return True"),
    (
        _CONSUMER + "turns.py",
        "is_ready(call, request) and _is_at_rest(call, request.key)",
        "is_ready(call, request)",
    ),
    (
        _CONSUMER + "turns.py",
        "is_ready(call, request) and _is_at_rest(call, request.key)",
        "_is_at_rest(call, request.key)",
    ),
    (_CONSUMER + "turns.py", "return _is_applied(call, key) and (not", "return (not"),
    (_CONSUMER + "turns.py", "call.is_applied(key, but=_SCALED)", "call.is_applied(key)"),
    (_CONSUMER + "turns.py", "bool(entry) and str(", "str("),
    (_ROLLOUT, "sorted(given) if ready and _key(name) in late", "sorted(given) if ready"),
    (_ROLLOUT, "sorted(given) if ready and _key", "sorted(given) if _key"),
    (_ROLLOUT, "max(given, since) + LATE", "min(given, since) + LATE"),
    (_ROLLED, "kept=_partition(workload))", "kept=9)"),
    (
        _CONSUMER + "decision.py",
        "progress=Progress.MOVING if moves else Progress.CURRENT",
        "progress=Progress.CURRENT",
    ),
    (_CONSUMER + "decision.py", 'update.update == "Pinned" and', "False and"),
    # What holds back, and what is kept
    (
        _CONSUMER + "decision.py",
        "if found.unready and not self.observed.may_run(request, wired):",
        "if False:",
    ),
    (
        _CONSUMER + "decision.py",
        'if recorded.has_recorded_template(request):\n            text = f"Still',
        'if False:\n            text = f"Still',
    ),
    (_CONSUMER + "decision.py", "if request.policy is Policy.OPTIONAL:\n", "if False:\n"),
    (
        _CONSUMER + "decision.py",
        "if not self.call.is_observed(request.key):\n            return Outcome(request, Action"
        '.DEFERRED, reason, f"Held back. {message}", found=found)\n        return self._keep',
        "if False:\n            return Outcome(request, Action"
        '.DEFERRED, reason, f"Held back. {message}", found=found)\n        return self._keep',
    ),
    (_CONSUMER + "decision.py", "if reason is Reason.TIER_UNRESOLVED:\n", "if False:\n"),
    (
        _CONSUMER + "decision.py",
        "if record is None or not record.wired:\n            return Outcome(request, Action.UN",
        "if True:\n            return Outcome(request, Action.UN",
    ),
    (_CONSUMER + "decision.py", "if request.policy is Policy.OFF:", "if False:"),
    (
        _CONSUMER + "decision.py",
        "if recorded.chose_unwired(request):\n                return",
        "if False:\n                return",
    ),
    (
        _CONSUMER + "decision.py",
        "elif recorded.has_recorded_template(request) and recorded.is_record_of(request, found):",
        "elif recorded.has_recorded_template(request):",
    ),
    (
        _CONSUMER + "recorded.py",
        "return wired_tiers(record.templates) <= {None,",
        "return True or wired_tiers(record.templates) <= {None,",
    ),
    (
        _CONSUMER + "decision.py",
        "if record is not None and record.wired:\n            manifest",
        "if False:\n            manifest",
    ),
    (
        _CONSUMER + "decision.py",
        "not self.observed.may_run(request, wired):",
        "not self.observed.may_run(request, wired) and request.record is None:",
    ),
    (_CONSUMER + "composer.py", "        self.answer.ready = False\n", ""),
    (
        _CONSUMER + "composer.py",
        "self.answer.removed.add(outcome.request.key)",
        "pass",
    ),
    (
        _CONSUMER + "composer.py",
        "if outcome.action is Action.WIRED and not self.call.is_observed(outcome.request.key):",
        "if False:",
    ),
    (_CONSUMER + "lookup.py", "if tier_names.is_refused(found.document):", "if False:"),
    (
        _CONSUMER + "lookup.py",
        "if edit := pinned.unjudged(found.document, whole):",
        "if edit := '':",
    ),
    (_CONSUMER + "lookup.py", "if not admits(tier, namespace):", "if False:"),
    (
        _CONSUMER + "lookup.py",
        "if _provider_config(t) == request.provider_config]",
        "if _provider_config(t)]",
    ),
    # Usages
    (
        _CONSUMER + "marks.py",
        "if not outcome.is_wired:\n                continue\n            by",
        'if outcome.action != "Wired":\n                continue\n            by',
    ),
    (
        _CONSUMER + "marks.py",
        "made = self._kept(outcome, by, progress) | made",
        "self._kept(outcome, by, progress)",
    ),
    (
        _CONSUMER + "composer.py",
        "usage.unreleased(self.call, made, stays).items()",
        "()",
    ),
    (
        "function/composers/usage.py",
        "    if fleet:\n        labels[names.LABEL_USED_FLEET] = names.reference(namespace, fleet)"
        "\n    rows",
        "    rows",
    ),
    ("function/composers/usage.py", "if it.key not in made]", "if False]"),
    ("function/composers/usage.py", "if _is_of(it, record) and models:", "if models:"),
    ("function/composers/usage.py", "if (it.tier, m) not in others}", "}"),
    ("function/composers/usage.py", "if _is_of(it, record) and _used(", "if _used("),
    (_USAGE, "for it in here or held:", "for it in held:"),
    (_USAGE, "if by.namespace and not here and not", "if False and not"),
    (_USAGE, "_recomposed(call, it.key, by, by.namespace)", "_recomposed(call, it.key, by)"),
    (_USAGE, "for it in here or held:", "for it in []:"),
    (
        "function/composers/usage.py",
        'name = call.observed_value(key, "metadata", "name") or own_name',
        "name = own_name",
    ),
    ("function/composers/admission.py", "*closed} - {", "} - {"),
    ("function/composers/admission.py", ' or admits(tier, place, "status")', ""),
    (
        "function/composers/admission.py",
        'if "allowedNamespaces" not in status and access.objects(tier, *_COMPOSED):',
        "if False:",
    ),
    # A tier on its cluster
    (
        "function/composers/tier.py",
        "            if self.refused_writes[part.key]:\n                ready = False\n",
        "",
    ),
    (
        "function/composers/tier.py",
        "if part.role == AGENTS:\n                ready",
        "if False:\n                ready",
    ),
    (
        "function/composers/tier.py",
        "problems = self.refused_change() + self.left_fleet()",
        "problems = self.left_fleet()",
    ),
    (
        "function/composers/tier.py",
        "problems = self.refused_change() + self.left_fleet()",
        "problems = self.refused_change()",
    ),
    (
        "function/composers/agents.py",
        "if late and not by_hand and not goes_on:",
        "if late and not by_hand and not agents.updated:",
    ),
    ("function/composers/agents.py", "not by_hand and not goes_on:", "not by_hand:"),
    ("function/composers/tier.py", "if self.children or _parts(self.call) != {", "if False and {"),
    ("function/composers/tier.py", "if self.children or _parts(", "if _parts("),
    ("function/composers/tier.py", "        if starts:\n", "        if parts and starts:\n"),
    ("function/composers/tier.py", "if left := _left_cluster(call, planned):", "if left := []:"),
    (
        "function/composers/tier.py",
        "if not self.provider_config and self.call.anything_observed:",
        "if False:",
    ),
    (
        "function/composers/agents.py",
        "            and self.ready >= needed(readiness.min_available, self.desired)\n",
        "",
    ),
    ("function/composers/agents.py", "            and self.desired >= readiness.min_nodes\n", ""),
    ("function/composers/agents.py", "            self.reported\n            and ", "            "),
    (
        "function/composers/tier_names.py",
        "return not access.text(tier, *_DELETION) and _is_ready(",
        "return _is_ready(",
    ),
    ("function/composers/tier_names.py", " and status(CONDITION_ACCEPTED) != FALSE", ""),
    ("function/composers/refusal.py", 'fatal=kept if runs else ""', 'fatal=""'),
    # A fleet
    (
        "function/composers/fleet.py",
        "self.clusters = sorted(self.staying | stay)",
        "self.clusters = sorted(self.staying)",
    ),
    (
        "function/composers/fleet.py",
        "        if self.used or self.holds:\n",
        "        if self.holds:\n",
    ),
    (
        "function/composers/fleet.py",
        "        if self.used or self.holds:\n",
        "        if self.used:\n",
    ),
    ("function/composers/fleet.py", "fresh.add(cluster)", "pass"),
    ("function/fn.py", "if answer.ttl > TTL_TIMED and", "if False and"),
    (_IN_USE, 'return bool(found == "true")', "return False"),
    (_FLEET, "version=self._guard(cluster)", 'version=""'),
    (_FLEET, "frozenset(waiting[:number])", "frozenset(waiting)"),
    (_WAVES, "if m.exists and not m.updated if m.works", "if m.exists and not m.updated"),
    (_WAVES, "if m.exists and not m.updated if m.works", "if m.exists if m.works"),
    (_CONSUMER + "composer.py", "is_repeated = outcome.repeats_observed", "is_repeated = False"),
    (_CONSUMER + "composer.py", "is_repeated = outcome.repeats_observed", "is_repeated = True"),
    (_IN_USE, "if one is None or any(_is_of(each, tier) for each in one):", "if True:"),
    (_IN_USE, "{MARK_KEY: _of_mark(tier)})", "{})"),
    (_IN_USE, "known == looked or _is_in_force(call)", "known == looked"),
    (_IN_USE, " or any(_key(each) != MARK_KEY for each in _own(call, own)):", ":"),
    (_IN_USE, "for each in _own(call, own)):", "for each in own):"),
    (_IN_USE, "users := [each for each in all_ if _is_of(each, tier)]", "users := all_"),
    (_IN_USE, "return _leaves(found), naming", "return False, naming"),
    # Waves
    (_WAVES, "clusters=1),)", "clusters=2),)"),
    (_WAVES, " - len(unsettled) - len(elsewhere)", " - len(unsettled)"),
    (_WAVES, " - len(unsettled) - len(elsewhere)", ""),
    (_WAVES, "if m.failed or m.lost]", "if m.failed and m.lost]"),
    (_WAVES, "if m.busy or m.failed or m.lost or", "if m.failed or m.lost or"),
    (_WAVES, "if m.busy or m.failed or m.lost or", "if m.busy or"),
    (_WAVES, "m.failed or m.lost or m.unproven]", "m.failed or m.lost]"),
    (
        _WAVES,
        "if m.busy or m.failed or m.lost or m.unproven]",
        "if old and (m.busy or m.failed or m.lost or m.unproven)]",
    ),
    (_WAVES, "if m.misses or not (m.settled and proven)]", "if m.misses or not m.settled]"),
    (_WAVES, "if m.misses or not (m.settled and proven)]", "if not (m.settled and proven)]"),
    (_WAVES, "for m in waits if m.misses or not m.skipped}", "for m in waits}"),
    (_FLEET, "own if member.excused and not member.done else", "kept.unready or"),
    (_FLEET, "own = kept.revision or self.revision", "own = kept.revision"),
    (_FLEET, "if wanted and unproven:", "if wanted:"),
    (_FLEET, "if wanted and unproven:", "if False:"),
    (_FLEET, "min(wanted, _MOST_SERVING)", "wanted"),
    (_WAVES, "    if rollout.paused:", "    if False:"),
    (_WAVES, "return proven and all(m.settled for m in wave)", "return proven"),
    (
        _WAVES,
        "return proven and all(m.settled for m in wave)",
        "return all(m.settled for m in wave)",
    ),
    (_WAVES, "(not member.ready and was_unready)", "not member.ready"),
    (_WAVES, "member.excused or runs_stable", "runs_stable"),
    (_WAVES, "waves if _assign(members, waves[:1]) else [*DEFAULT, *waves]", "waves"),
    (_WAVES, "[m for m in members if m.exists] if old else members", "members"),
    (_WAVES, "self.ready and not self.busy and not self.failed", "self.ready and not self.busy"),
    (_FLEET, "counts = alike and m.revision != self._stable", "counts = False"),
    (_FLEET, " or (self._was_done and not unproven and (failed or lost))", ""),
    (_FLEET, "found.unproven and not works", "False"),
    (_FLEET, "found.unproven and not works", "found.unproven"),
    (_FLEET, "not unready and (changes or member.unproven)", "not unready and changes"),
    (_FLEET, "not unready and (changes or member.unproven)", "changes or member.unproven"),
    (_FLEET, "kept = replace(kept, unproven=member.unproven)", "pass"),
    (_WAVES, "else hurt or open_", "else open_"),
    (_WAVES, "== stable_revision and not member.unproven", "== stable_revision"),
    (_WAVES, "if m.revision != running or m.unproven", "if m.revision != running"),
    (_FLEET, "not (old or member.untouched)", "not old"),
    (_FLEET, "or self._stable == self.revision", ""),
    (_WAVES, "return self.done or self.skipped", "return self.updated"),
    (_WAVES, "return self.ready and not self.busy and", "return self.ready and"),
    (
        _FLEET,
        "works = judged and ready and not reason and",
        "works = ready and not reason and",
    ),
    (
        _FLEET,
        "works = judged and ready and not reason and",
        "works = judged and ready and",
    ),
    (
        _FLEET,
        "works = judged and ready and not reason and",
        "works = judged and not reason and",
    ),
    (_FLEET, "updated = self._is_target(cluster, found.spec)", "updated = True"),
    (
        "function/composers/agents.py",
        "    if not call.is_applied(part.key):\n        return False\n",
        "",
    ),
    (
        _CONSUMER + "turns.py",
        "return bool(seen) and _is_applied(call, key) and",
        "return bool(seen) and",
    ),
    (
        _CONSUMER + "turns.py",
        "return bool(seen) and _is_applied(call, key) and",
        "return _is_applied(call, key) and",
    ),
    # The files of pods that run on
    (_CONSUMER + "companions.py", "if kept and not users and is_left():", "if True:"),
    (_CONSUMER + "companions.py", "if kept and not users and is_left():", "if False:"),
    (_CONSUMER + "companions.py", "kept and not users and", "kept and"),
    (_CONSUMER + "composer.py", "self._leave if before is None else", "self._leave or"),
    (_CONSUMER + "composer.py", "self._leave if before is None else", ""),
    (_CONSUMER + "companions.py", "in COUNTED else [request.key]", "in COUNTED else []"),
    (_CONSUMER + "companions.py", "if key not in taken]", "]"),
    (_CONSUMER + "companions.py", "namespace or remote)", "remote)"),
    (
        _CONSUMER + "composer.py",
        "if before and before != records.get(key):",
        "if False:",
    ),
    (
        _CONSUMER + "recorded.py",
        "return not is_other and names_tier",
        "return names_tier",
    ),
    (_ROLLED, "pods.there <= pods.updated + kept", "True"),
    (_ROLLED, "pods.ready if pods.updated else pods.there", "pods.there"),
    (_ROLLED, "pods.ready if pods.updated else pods.there", "pods.ready"),
    (_ROLLED, "or pods.there <= pods.updated:", ":"),
    (
        "function/composers/fleet.py",
        'if not leaves and self._stamped_for(name) in ("", uid)',
        "if not leaves",
    ),
    (
        "function/composers/fleet.py",
        'if not leaves and self._stamped_for(name) in ("", uid)',
        'if self._stamped_for(name) in ("", uid)',
    ),
    (
        "function/composers/fleet.py",
        "for cluster in sorted({*self.clusters, *self.last}):",
        "for cluster in sorted({*self.clusters}):",
    ),
    (
        "function/composers/fleet.py",
        "self.holds |= {k: v for k, v in self.held.items() if lingering is",
        "dict() | {k: v for k, v in self.held.items() if lingering is",
    ),
    ("function/composers/fleet.py", "in own if leaves or cluster not in stay", "in own if leaves"),
    (
        "function/composers/fleet.py",
        "if lingering is None or k in lingering}",
        "if lingering and k in lingering}",
    ),
    ("function/composers/fleet.py", "bool(self.staying) and not waiting", "bool(self.staying)"),
    ("function/composers/fleet.py", "bool(self.staying) and not waiting", "not waiting"),
    ("function/composers/fleet.py", 'and self.tier.spec.removal != "Remove"', ""),
    ("function/composers/fleet.py", "stay = self.used | self.kept if", "stay = self.used if"),
    (
        "function/composers/fleet.py",
        "        if found is None:\n            return True\n        return any(",
        "        if found is None:\n            return False\n        return any(",
    ),
    ("function/composers/fleet.py", "            not leaves and self._st", "            self._st"),
    (
        "function/composers/fleet.py",
        'not leaves and self._stamped_for(name) in ("", uid) for',
        "not leaves for",
    ),
    (
        "function/composers/fleet.py",
        "if self.call.is_leaving(PREFIX + name):\n            return False",
        "if False:\n            return False",
    ),
    ("function/composers/fleet.py", "if self.staying else (FALSE", "if self.clusters else (FALSE"),
    # What an edit leaves as it is, and what proves it
    (_FLEET, "counts = alike or (is_edit and self._took_edit(m.cluster))", "counts = True"),
    (_FLEET, "counts = alike or (is_edit and self._took_edit(m.cluster))", "counts = alike"),
    (_FLEET, "return not self.previous or taken == self.previous", "return True"),
    (
        _FLEET,
        'was = "previous" if self.before.get("revision") == self.revision else "revision"',
        'was = "revision"',
    ),
    (_FLEET, "if is_there else self.previous", "if False else self.previous"),
    (_FLEET, "takes = takes and not member.refused", "pass"),
    (_FLEET, "unready if unready == revision else", "unready if True else"),
    (_FLEET, "excused=bool(found.unready)", "excused=False"),
    (_FLEET, "lost = reason in _UNSEEN or (is_old and not halts)", "lost = is_old and not halts"),
    (_FLEET, "lost = reason in _UNSEEN or (is_old and not halts)", "lost = reason in _UNSEEN"),
    (_FLEET, "unproven and not tier_names.is_paused(child)", "unproven"),
    (_FLEET, "is_old and unproven and not tier_names", "False and not tier_names"),
    (_FLEET, "busy=not is_old and (not judged", "busy=(not judged"),
    (_FLEET, "_serves(child) and not is_old", "_serves(child)"),
    (_FLEET, "halts or (judged and reason not in _PASSING)", "halts or reason not in _PASSING"),
    (_FLEET, "passed and not moves_engines(child)", "passed"),
    (_FLEET, "spec == wanted or self._with_defaults(spec) ==", "spec == wanted or None =="),
    (
        _FLEET,
        "waiting=()) if self._was_done and stays else found",
        "waiting=()) if False else found",
    ),
    (
        _REPORT,
        "if not rollout.resolved:\n        return rollout.before",
        "if False:\n        return {}",
    ),
    # A wave's order and size
    (_WAVES, "max(1, needed(rollout.max_unavailable, everyone))", "max(1, everyone)"),
    (_WAVES, "(proven or not m.lost)", "True"),
    (_WAVES, "newcomers = current > 0", "newcomers = True"),
    (_WAVES, "return not m.done, not m.updated, m.lost", "return not m.done, m.lost"),
    (_WAVES, "m.lost, works, m.ready, is_usual", "m.lost, works, m.ready, False"),
    (_WAVES, "full = taken - free", "full = taken"),
    (_WAVES, "room -= member.cluster not in free", "room -= 1"),
    (_WAVES, "in [m for m in old if m.ready] or old)", "in old)"),
    (_WAVES, "halted = refused or any(", "halted = any("),
    # Who is counted
    (_USAGE, 'kept["annotations"].pop(names.ANNOTATION_PROGRESS, None)', "pass"),
    (_USAGE, "return Consumer(namespace if scope else", "return Consumer(str(scope) if scope else"),
    (_USAGE, "where = () if who.namespace else", "where = () if True else"),
    (_USAGE, "return by.namespace or tier[0]", "return tier[0]"),
    (_USAGE, "for it in (name, child) if it}", "for it in (name,) if it}"),
    (_ADMISSION, 'return source == "All" or namespace ==', "return namespace =="),
    (_ADMISSION, "isinstance(listed, list) and namespace in listed", "True"),
    (_ADMISSION, ' and not status.get("closedNamespaces")', ""),
    (_ADMISSION, 'return _allowed(tier, "status") == _allowed(tier) and', "return"),
    (_ADMISSION, "return not known or admits(", "return True or admits("),
    (_ADMISSION, "if len(closed) > MAX_CLOSED:", "if False:"),
    (_ADMISSION, "if not admits(tier, place))", "if True)"),
    (_ADMISSION, 'places - {home, ""}', "places"),
    (_ROLLOUT, "min(MAX_TURNS, max(", "max(0, max("),
    (_ROLLOUT, "shown <= number * 5 / 4", "shown <= number"),
    (_ROLLOUT, "len({*self.behind, *self.turns})", "len({*self.behind})"),
    (
        "function/composers/fleet.py",
        "return self._ready[cluster]",
        "return True",
    ),
    ("function/composers/fleet.py", "ready and cluster not in self.anew", "ready"),
    (
        "function/composers/tier_names.py",
        "return is_refused(tier) and not is_paused(tier)",
        "return is_refused(tier)",
    ),
    (_FLEET, "all(m.exists and not (m.ref", "all(not (m.ref"),
    (_FLEET, "if found is None or cluster in self.anew or", "if found is None or"),
    (
        "function/composers/fleet.py",
        "return self.staying | self.anew if self.resolved else set(self.clusters)",
        "return set(self.clusters)",
    ),
    (_GUARD, '"Synced") != "Unknown"', '"Synced")'),
    (_GUARD, "and not call.is_leaving(PREFIX + c)", ""),
    ("function/edge/request.py", "found and not self.is_leaving(key)", "found"),
    ("function/composers/tier.py", " or any(map(self.call.is_leaving, parts))", ""),
    ("function/composers/serving.py", "order[max(best)]", "order[min(best)]"),
    ("function/composers/serving.py", "if engines and all(engines):", "if any(engines):"),
    (_CONSUMER + "composer.py", "o.reason is not Reason.NOT_APPLIED", "True"),
    (_CONSUMER + "composer.py", "if pairs and self.call", "if self.call"),
    (_CONSUMER + "composer.py", "        self.keep_pairs()\n", ""),
    (_CONSUMER + "observed.py", "is_written and not is_wired", "False and not is_wired"),
    ("function/composers/deployment.py", "outage.moves(call, answer", "False and (call, answer"),
    # Quarantine
    (_QUARANTINE, "sorted(accused - opened)", "sorted(accused)"),
    (_QUARANTINE, "if model in found or len(found) < MOST:", "if True:"),
    (_QUARANTINE, "        opened = accused\n", ""),
    (_QUARANTINE, "found.get(model, 0) + 1", "1"),
    (_QUARANTINE, "if m.name and m.state == WRONG_BLOCKS", "if m.name"),
    (_QUARANTINE, 'before = call.composite_value("status", "quarantine") or []', "before = []"),
    (_ROLLOUT, "sum(quarantine.numbers(tier).values())", "0"),
    # A chosen tier
    (
        _CONSUMER + "decision.py",
        "if chosen := auto.recorded(request.record):",
        "if chosen := None:",
    ),
    (_AUTO, "    return not tier_names.is_ready(tier), is_open", "    return False, is_open"),
    (_AUTO, "if admits(tier, namespace)\n", "if True\n"),
)


# It fails with every mutant: it counts their texts.
_COUNTED = "tests/unit/composers/test_mutants.py"


def copied(target: Path) -> None:
    """Copy the code and the tests; the rest of the tree is linked."""
    ignored = shutil.ignore_patterns("__pycache__")
    for each in ROOT.iterdir():
        if each.name in _COPIED:
            shutil.copytree(each, target / each.name, ignore=ignored)
        elif not each.name.startswith("."):
            (target / each.name).symlink_to(each)


def killed(target: Path, file: str, given: argparse.Namespace) -> str:
    """Return who kills what stands in `target`, and how, "" for nobody."""
    if not given.only_world:
        first = _FIRST.get(file, _FIRST_OF_CONSUMERS if file.startswith(_CONSUMER) else ())
        tests = [[f"tests/unit/composers/{name}.py" for name in first]]
        tests += [] if given.focused and first else [["tests/unit/composers"]]
        said = next(filter(None, (_unit(target, some) for some in tests if some)), "")
        if said:
            return said
    world = [sys.executable, "-m", "tests.world", "--runs", str(given.runs), "--as-it-is"]
    said = _run(target, world)
    if said:
        line = next((line for line in said.splitlines() if line.startswith("seed")), said[-300:])
        return f"world, {line[:150]}"
    return ""


def _unit(target: Path, tests: Sequence[str]) -> str:
    """Return the first of these unit tests that fails, "" for none."""
    options = ["-q", "-x", "-p", "no:cacheprovider", f"--ignore={_COUNTED}"]
    said = _run(target, [sys.executable, "-m", "pytest", *options, *tests])
    failed = [line for line in said.splitlines() if line.startswith(("FAILED", "ERROR"))]
    return f"unit, {(failed or [said[-300:]])[0][:150]}" if said else ""


def _run(target: Path, command: Sequence[str]) -> str:
    """Return what a command says that fails, "" where it does not."""
    env = {**os.environ, "PYTHONPATH": str(target)}
    done = subprocess.run(command, cwd=target, env=env, capture_output=True, text=True)
    return (done.stdout + done.stderr or "failed") if done.returncode else ""


def main(arguments: Sequence[str]) -> int:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--runs", type=int, default=100, help="histories for each mutant")
    options.add_argument("--only-world", action="store_true", help="run no unit tests")
    options.add_argument("--focused", action="store_true", help="run the first unit tests alone")
    options.add_argument("--only", type=int, nargs="*", help="numbers of mutants")
    options.add_argument("--file", default="", help="mutants of files whose path holds this")
    given = options.parse_args(arguments)
    survivors = []
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder)
        copied(target)
        chosen = given.only or [i for i, it in enumerate(MUTANTS) if given.file in it[0]]
        for number in chosen:
            file, old, new = MUTANTS[number]
            text = (target / file).read_text()
            if text.count(old) != 1:
                raise SystemExit(f"mutant {number}: {file} has {old!r} {text.count(old)} times")
        said = "" if given.focused else killed(target, "", given)
        if said:
            raise SystemExit(f"the code as it is fails: {said}")
        for number in chosen:
            file, old, new = MUTANTS[number]
            text = (target / file).read_text()
            (target / file).write_text(text.replace(old, new))
            said = killed(target, file, given)
            (target / file).write_text(text)
            print(
                f"{number:3} {file}: {old.strip()[:60]!r}\n      {said or 'SURVIVES'}", flush=True
            )
            if not said:
                survivors.append(number)
    print(f"{len(chosen) - len(survivors)} of {len(chosen)} mutants killed; left: {survivors}")
    return bool(survivors)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
