"""An error of another controller reads the same over its tries."""

import pytest

from function.kube.errors import without_differences

# error -> what is quoted
ERRORS = {
    "read tcp 10.0.0.1:53412->10.0.0.9:6443: read: connection reset by peer": (
        "read tcp (address)->(address): read: connection reset by peer"
    ),
    "read tcp [fd00::1]:53412->[fe80::1%eth0]:6443: i/o timeout": (
        "read tcp (address)->(address): i/o timeout"
    ),
    'Get "https://10.0.0.9:6443/api": EOF': 'Get "https://(address)/api": EOF',
    'Get "https://api.gpu:6443/api": EOF': 'Get "https://api.gpu:6443/api": EOF',
    "lookup api.gpu on 10.96.0.10:53: no such host": "lookup api.gpu on (address): no such host",
    "certificate has expired: current time 2026-11-23T08:00:00Z is after 2026-11-22T08:00:00Z": (
        "certificate has expired: current time (time) is after (time)"
    ),
    "at 2026-11-23 08:00:00.123456789 +0000 UTC m=+0.5: late": "at (time): late",
    "api error: RequestID: 1f0c-AbC_9, expired": "api error: RequestID: (id), expired",
    "request id=17: refused": "request id=(id): refused",
    "request_id:x1 refused": "request_id:(id) refused",
    "operation 6F9619FF-8B86-D011-B42D-00CF4FC964FF failed": "operation (id) failed",
    "stream error: stream ID 17; INTERNAL_ERROR": "stream error: stream ID (id); INTERNAL_ERROR",
    "'<Tier object at 0x7f3ca4b0d2e0>' is bad": "'<Tier object at (pointer)>' is bad",
    "panic: runtime error [addr=0xc00012ab40]": "panic: runtime error [addr=(pointer)]",
    "flag 0x10 is unknown": "flag 0x10 is unknown",
    "the request ID is missing": "the request ID is missing",
    "image x:1.2.3.4 is not found": "image x:1.2.3.4 is not found",
    'services "a" is forbidden': 'services "a" is forbidden',
}


@pytest.mark.parametrize("error", ERRORS)
def test_error_loses_what_differs_by_try(error: str) -> None:
    assert without_differences(error) == ERRORS[error]
    assert without_differences(ERRORS[error]) == ERRORS[error]


def test_long_error_is_searched_in_part() -> None:
    assert len(without_differences("a" * 100_000)) == 8192
