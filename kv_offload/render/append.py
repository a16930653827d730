"""Append our step to the text of a Composition and leave everything else as it is.

The document is not written again: a YAML parser's marks tell where the last step ends, and lines
are inserted there, so comments, order, quoting and anchors stay byte for byte. The result is read
back and must be the old document plus the step, or nothing is changed.

Rejected: a round-tripping YAML library. It keeps comments but not indentation, folding and quotes,
and a platform's reviewers would see a diff of the whole file.
"""

import copy
from typing import Any

import yaml

from function.kube import access
from kv_offload.render.files import InputError, parse

Document = dict[str, Any]


def append_step(text: str, file: str, step: str, function: str) -> str:
    """Return the text with the step at the end of the pipeline, or unchanged if it has it.

    Raise InputError where the text holds no single Composition in block style.
    """
    documents = parse(text, file)
    index = only(documents, file)
    expected = copy.deepcopy(documents)
    if not append_to(expected[index], file, step, function):
        return text
    changed = _insert(text, file, index, step, function)
    try:
        is_expected = parse(changed, file) == expected
    except InputError:  # such as a name of the step that YAML does not take
        is_expected = False
    if not is_expected:
        raise InputError(
            f"{file}: the step cannot be inserted safely: append to spec.pipeline by hand"
            f" {{step: {step}, functionRef: {{name: {function}}}}}"
        )
    return changed


def append_to(composition: Document, file: str, step: str, function: str) -> bool:
    """Append the step to a Composition; return False if it has it. Raise InputError."""
    spec = access.mapping(composition, "spec")
    if spec.get("mode") != "Pipeline":
        raise InputError(f"{file}: spec.mode is {spec.get('mode')!r}, expected Pipeline")
    pipeline = spec.get("pipeline")
    if not isinstance(pipeline, list) or not pipeline:
        raise InputError(
            f"{file}: spec.pipeline is empty: add the step that composes the pods first"
        )
    for number, each in enumerate(pipeline):
        if not isinstance(each, dict) or not each:
            raise InputError(f"{file}: spec.pipeline[{number}]: set step and functionRef.name")
    if has_step(composition, function):
        return False
    if any(s.get("step") == step for s in access.objects(spec, "pipeline")):
        raise InputError(
            f"{file}: spec.pipeline already has a step {step!r} of another function: choose"
            " another name with --step-name"
        )
    pipeline.append({"step": step, "functionRef": {"name": function}})
    return True


def has_step(composition: Document, function: str) -> bool:
    """Return whether a Composition's pipeline already calls our function."""
    pipeline = access.objects(composition, "spec", "pipeline")
    return any(access.text(s, "functionRef", "name") == function for s in pipeline)


def only(documents: list[Document], file: str) -> int:
    """Return the index of the one Composition among documents. Raise InputError."""
    indexes = [i for i, document in enumerate(documents) if document.get("kind") == "Composition"]
    if len(indexes) != 1:
        is_list = any(str(document.get("kind")).endswith("List") for document in documents)
        how = ": give it alone, by kubectl get composition NAME -o yaml" if is_list else ""
        raise InputError(f"{file}: {len(indexes)} Compositions, expected one{how}")
    return indexes[0]


def _insert(text: str, file: str, index: int, step: str, function: str) -> str:
    nodes = [node for node in yaml.compose_all(text, Loader=yaml.SafeLoader) if _is_object(node)]
    pipeline = _child(_child(nodes[index], "spec"), "pipeline")
    if not isinstance(pipeline, yaml.SequenceNode) or pipeline.flow_style:
        raise InputError(
            f"{file}: spec.pipeline is written in brackets: write each step on lines of its own"
        )
    lines = text.splitlines(keepends=True)
    newline = "\r\n" if lines[0].endswith("\r\n") else "\n"
    last = _last_line(pipeline.value[-1], lines)
    dash = " " * pipeline.start_mark.column
    key = " " * _column_of_keys(pipeline.value[-1])
    deeper = key + " " * max(2, len(key) - len(dash))
    added = [
        f"{dash}-{' ' * (len(key) - len(dash) - 1)}step: {step}",
        f"{key}functionRef:",
        f"{deeper}name: {function}",
    ]
    if not lines[last].endswith("\n"):
        lines[last] += newline
    lines[last + 1 : last + 1] = [line + newline for line in added]
    return "".join(lines)


def _is_object(node: yaml.Node | None) -> bool:
    return isinstance(node, yaml.MappingNode)


def _child(node: yaml.Node | None, name: str) -> yaml.Node | None:
    if not isinstance(node, yaml.MappingNode):
        return None
    return next((value for key, value in node.value if key.value == name), None)


def _column_of_keys(item: yaml.Node) -> int:
    column: int = item.value[0][0].start_mark.column
    return column


def _last_line(node: yaml.Node, lines: list[str]) -> int:
    """Return the line that a node's last scalar ends on; a block scalar's mark is one below."""
    if isinstance(node, yaml.MappingNode) and node.value and not node.flow_style:
        return max(_last_line(part, lines) for pair in node.value for part in pair)
    if isinstance(node, yaml.SequenceNode) and node.value and not node.flow_style:
        return max(_last_line(item, lines) for item in node.value)
    end = node.end_mark
    line = end.line - 1 if end.column == 0 and end.line > node.start_mark.line else end.line
    while line > node.start_mark.line and not lines[line].strip():
        line -= 1
    return line
