"""What is counted of requests, and of whom."""

from evaluator.service.api.callers import LOCAL_CALLER, Caller
from evaluator.service.api.middleware import Body, RequestMiddleware
from evaluator.settings import ServiceSettings


def test_a_first_key_that_is_made_during_a_request_leaves_nothing_counted(tmp_path):
    """Until then all callers are one tenant, and from then on this one is another."""
    door = RequestMiddleware(None, None, None, ServiceSettings(tmp_path, "sqlite://"), None, None)
    body = Body(door, None, 1 << 20, 1.0)
    body.comes_from("192.0.2.1")
    body.is_of(LOCAL_CALLER)
    body.hold(1000)
    body.is_of(Caller("a key"))
    assert dict(door._open) == {"a key": 1}
    assert dict(door._arriving_bytes) == {"a key": 1000}
    body.is_of(Caller("a key"))
    assert dict(door._open) == {"a key": 1}
    body.end()
    assert not door._open
    assert not door._arriving_bytes
    assert not door._open_keyless
