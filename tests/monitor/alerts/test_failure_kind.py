import pytest

from monitor.alerts.failure_kind import failure_kind


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("answered 500 Internal Server Error: request 91f2", "answered 500 Internal Server Error: another body"),
        ("answered 500 Internal Server Error", "answered 500 Internal Server Error: late"),
        ("ended with 3: Mon 10:20 cannot", "ended with 3: Tue 11:00 no"),
        ("Failed to send, error=500, id req_8f1a22", "Failed to send, error=500, id req_901b33"),
        ("ConnectionResetError: at 0x7f00aa10 after 12.5 s", "ConnectionResetError: at 0x7f00bb20 after 9 s"),
        ("no route, request deadbeefdeadbeefdead", "no route, request cafecafecafecafecafe"),
    ],
)
def test_what_differs_in_ids_times_and_bodies_is_the_same_failure(one, other):
    assert failure_kind(one) == failure_kind(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("answered 500 Internal Server Error: x", "answered 503 Service Unavailable: x"),
        ("answered 404 Not Found", "answered 404 Gone"),
        ("ended with 3: x", "ended with 4: x"),
        ("Failed to send, error=500.", "Failed to send, error=403."),
        ("cannot be reached: Connection refused", "no answer within 10 s"),
    ],
)
def test_what_went_wrong_is_told_apart(one, other):
    assert failure_kind(one) != failure_kind(other)
