"""What the record of an earlier wiring says of a workload as it is now."""

from function import names
from function.composers import usage
from function.composers.consumer import lookup
from function.kube import access
from function.pods.offload_request import OffloadRequest
from function.pods.record import Record, wired_tiers
from function.reasons import Policy


def has_recorded_template(request: OffloadRequest) -> bool:
    """Return whether the workload was wired with the very template that it has now."""
    record = request.record
    return record is not None and record.wired and record.template == request.digest


def is_record_of(request: OffloadRequest, found: lookup.Found | None) -> bool:
    """Return whether the record is of the tier that the workload names, as that is now.

    A tier in use keeps its backend; one that came into use as it was edited, or was deleted and
    made again, has another.
    """
    record = request.record
    backend = access.text(found.document, "spec", "backend") if found else ""
    is_other = record is not None and record.wired and backend not in ("", record.backend)
    return not is_other and names_tier(request, found)


def names_tier(request: OffloadRequest, found: lookup.Found | None) -> bool:
    """Return whether the record names the tier that the workload names, where it runs.

    A name in a field of the composite, the cluster, or who has that name may change while the pod
    template does not.
    """
    record = request.record
    if record is None or record.tier != str(request.ref):
        return False
    document = found.document if found else None
    name = access.text(document, "metadata", "name")
    if record.child or not name:
        return name in ("", record.child)
    # A single tier's record, or an older release's.
    namespace = access.text(document, "metadata", "namespace")
    return wired_tiers(record.templates) <= {None, names.remote_name(namespace, name)}


def shares(record: Record) -> list[usage.Share]:
    """Return what a record's engines share on its tier."""
    facts = record.engines.values()
    return [usage.Share(each.get("model", ""), each.get("identity", "")) for each in facts]


def chose_unwired(request: OffloadRequest) -> bool:
    """Return whether Optional's choice holds: until the template changes or names another tier."""
    record = request.record
    return (
        request.policy is Policy.OPTIONAL
        and record is not None
        and not record.wired
        and record.tier == str(request.ref)
        and record.template == request.digest
    )
