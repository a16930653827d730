"""Crossplane core's own render protocol: `<core> internal render`, a protobuf on stdin and stdout.

The CLI prints nothing when a step is fatal, but core answers with what it wrote on the composite
(exit 3). The messages (`crossplane.render.v1alpha1`, core v2.4.0) are described here by the fields
that are used, so that no generated code is needed.
"""

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from crossplane.function import resource
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, struct_pb2

Document = dict[str, Any]

FATAL_EXIT_CODE = 3

_STRUCT = ".google.protobuf.Struct"
_PACKAGE = "crossplane.render.v1alpha1"
# message -> {field: (number, repeated, type)}; "" is a string.
_MESSAGES: dict[str, dict[str, tuple[int, bool, str]]] = {
    "FunctionInput": {"name": (1, False, ""), "address": (2, False, "")},
    "Event": {"type": (1, False, ""), "reason": (2, False, ""), "message": (3, False, "")},
    "CompositeInput": {
        "composite_resource": (1, False, _STRUCT),
        "composition": (2, False, _STRUCT),
        "functions": (3, True, f".{_PACKAGE}.FunctionInput"),
        "observed_resources": (4, True, _STRUCT),
        "required_resources": (5, True, _STRUCT),
        "credentials": (6, True, _STRUCT),
        "required_schemas": (7, True, _STRUCT),
    },
    "CompositeOutput": {
        "composite_resource": (1, False, _STRUCT),
        "composed_resources": (2, True, _STRUCT),
        "deleted_resources": (3, True, _STRUCT),
        "events": (4, True, f".{_PACKAGE}.Event"),
    },
    "RenderRequest": {"composite": (2, False, f".{_PACKAGE}.CompositeInput")},
    "RenderResponse": {"composite": (2, False, f".{_PACKAGE}.CompositeOutput")},
}


def _classes() -> dict[str, Any]:
    field = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(
        name="render.proto",
        package=_PACKAGE,
        syntax="proto3",
        dependency=[struct_pb2.DESCRIPTOR.name],
    )
    for name, fields in _MESSAGES.items():
        message = file.message_type.add(name=name)
        for field_name, (number, repeated, type_name) in fields.items():
            message.field.add(
                name=field_name,
                number=number,
                label=field.LABEL_REPEATED if repeated else field.LABEL_OPTIONAL,
                type=field.TYPE_MESSAGE if type_name else field.TYPE_STRING,
                type_name=type_name or None,
            )
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(struct_pb2.DESCRIPTOR.serialized_pb)
    described = pool.AddSerializedFile(file.SerializeToString())
    return {
        name: message_factory.GetMessageClass(described.message_types_by_name[name])
        for name in _MESSAGES
    }


_CLASS = _classes()


def render(
    binary: Path,
    xr: Document,
    composition: Document,
    addresses: Mapping[str, str],
    observed: Sequence[Document],
    required: Sequence[Document],
    schemas: Sequence[Document],
    credentials: Sequence[Document],
) -> tuple[Document, list[Document]]:
    """The composite and the deleted resources, after a success or a fatal; else RuntimeError."""
    request = _CLASS["RenderRequest"]()
    given = request.composite
    _fill(given.composite_resource, xr)
    _fill(given.composition, composition)
    for name, address in sorted(addresses.items()):
        given.functions.add(name=name, address=address)
    for target, documents in (
        (given.observed_resources, observed),
        (given.required_resources, required),
        (given.required_schemas, schemas),
        (given.credentials, credentials),
    ):
        for document in documents:
            _fill(target.add(), document)
    done = subprocess.run(
        [binary, "internal", "render"], input=request.SerializeToString(), capture_output=True
    )
    if done.returncode not in (0, FATAL_EXIT_CODE):
        raise RuntimeError(done.stderr.decode())
    answer = _CLASS["RenderResponse"].FromString(done.stdout).composite
    return _read(answer.composite_resource), [_read(s) for s in answer.deleted_resources]


def _fill(struct: Any, document: Document) -> None:
    # The pool's Struct is another class than the one the SDK knows: same bytes.
    struct.ParseFromString(resource.dict_to_struct(document).SerializeToString())


def _read(struct: Any) -> Document:
    return resource.struct_to_dict(struct_pb2.Struct.FromString(struct.SerializeToString()))
