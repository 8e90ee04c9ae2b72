"""The client against a real HTTP service, over a road that cuts, delays, and answers in the service's place."""

import asyncio
import contextlib
import itertools
import os
import random
import signal
import socket
import threading
import time
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from serving import Serving
from small_service import ANSWERS, CUTS, Road, SmallService, verdict_of

from common.client import (
    AsyncClient,
    Client,
    EvaluatorError,
    NoVerdictError,
    RequestRefusedError,
    ServiceError,
    transport,
)
from common.contract import Status, Submission

TROUBLES = [*ANSWERS, *CUTS]


def submission(source):
    return Submission(problem="vector_add", source=str(source))


@pytest.fixture
def hasty(monkeypatch):
    """Pauses between tries of milliseconds, so that many tries fit into a test."""
    monkeypatch.setattr(transport, "_FIRST_PAUSE_S", 0.002)
    monkeypatch.setattr(transport, "_LONGEST_PAUSE_S", 0.05)


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    """A real one, without workers."""
    serving = Serving(tmp_path_factory.mktemp("serving"))
    serving.start(workers=0)
    yield serving
    serving.stop()


@contextlib.contextmanager
def away(service, troubles=(), **options):
    """A client at one end of a road and the service at the other."""
    with service.served() as port:
        road = Road(port, troubles)
        with road.open() as url, Client(url, **{"patience_s": 20.0, **options}) as client:
            client.road, client.url = road, url
            yield client


def eventually(condition, timeout_s=5.0):
    until = time.monotonic() + timeout_s
    while not condition() and time.monotonic() < until:
        time.sleep(0.01)
    return condition()


def test_a_submission_comes_back_as_a_verdict_in_one_request():
    service = SmallService(grading_s=0.05)
    with away(service) as client:
        assert client.evaluate(submission("a")) == verdict_of("a")
    assert service.asked == {"POST 200": 1}


def test_what_takes_longer_than_one_request_is_resumed_by_its_id():
    service = SmallService(grading_s=2.2)
    with away(service, wait_s=1.0) as client:
        assert client.evaluate(submission("a")) == verdict_of("a")
    assert service.asked == {"POST 202": 1, "GET 200": 2}


def test_async_and_sync_give_the_same():
    async def both(url):
        async with AsyncClient(url) as client:
            return await client.evaluate(submission("a")), await client.evaluate_many(map(submission, "bc"))

    with away(SmallService()) as client:
        assert asyncio.run(both(client.url)) == (verdict_of("a"), [verdict_of("b"), verdict_of("c")])
        assert client.evaluate_many(map(submission, "bc")) == [verdict_of("b"), verdict_of("c")]


@pytest.mark.parametrize("trouble", TROUBLES)
def test_every_trouble_on_the_road_is_overcome_and_asking_again_is_no_second_evaluation(trouble, hasty):
    service = SmallService()
    with away(service, [trouble]) as client:
        assert client.evaluate(submission("a")) == verdict_of("a")
        assert client.road.met[0] == trouble
        assert len(client.road.met) == (1 if trouble == "slow" else 2)
    assert len(service.submissions) == 1


@settings(max_examples=12, deadline=None)
@given(troubles=st.lists(st.sampled_from(TROUBLES), max_size=6), grading_s=st.sampled_from([0.0, 0.3]))
def test_any_row_of_troubles_ends_in_the_one_right_verdict(troubles, grading_s):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(transport, "_FIRST_PAUSE_S", 0.002)
        service = SmallService(grading_s)
        with away(service, troubles) as client:
            assert client.evaluate(submission("a")) == verdict_of("a")
    assert list(service.submissions.values()) == [submission("a")]


def test_many_over_a_bad_road_come_back_each_exactly_once_and_in_order(hasty):
    service = SmallService(grading_s=0.02)
    chance = random.Random(5)
    seen = []
    with away(service, [chance.choice([*TROUBLES, None, None]) for _ in range(150)]) as client:
        verdicts = client.evaluate_many(map(submission, range(100)), concurrency=24, progress=seen.append)
    assert verdicts == [verdict_of(str(number)) for number in range(100)]
    assert sorted(one.source for one in service.submissions.values()) == sorted(map(str, range(100)))
    assert sorted(one.index for one in seen) == list(range(100))
    assert [one.done for one in seen] == list(range(1, 101))
    assert all(one.outcome == verdicts[one.index] for one in seen)


def test_concurrency_is_bounded_and_submissions_are_read_as_places_become_free():
    service = SmallService(grading_s=0.05)
    read, ahead = itertools.count(), []

    async def grade(url):
        async with AsyncClient(url) as client:
            await client.evaluate_many(
                (submission(next(read)) for _ in range(30)),
                concurrency=5,
                progress=lambda one: ahead.append(len(service.submissions) - one.done),
            )

    with away(service) as client:
        asyncio.run(grade(client.url))
        with pytest.raises(ValueError, match="at least 1"):
            client.evaluate_many([submission("a")], concurrency=0)
    assert service.max_under_way <= 5
    assert max(ahead) <= 5


def test_nothing_to_grade_is_nothing():
    with away(SmallService()) as client:
        assert client.evaluate_many([]) == client.evaluate_each([]) == []


def test_a_full_service_is_asked_by_one_at_a_time_until_all_have_had_their_turn():
    service = SmallService(grading_s=0.4, places=4)
    with away(service) as client:
        started = time.monotonic()
        assert len(client.evaluate_many(map(submission, range(16)), concurrency=16)) == 16
    assert service.max_under_way == 4
    # The first sixteen ask at the same time; then only the first in the row asks, once a second.
    assert service.asked["POST 429"] <= 12 + (time.monotonic() - started) + 1


def test_a_pause_is_never_shorter_than_the_service_asks_for():
    service = SmallService(grading_s=0.3, places=1)
    with away(service) as client, Client(client.url) as other:
        blocker = threading.Thread(target=other.evaluate, args=[submission("first")])
        blocker.start()
        assert eventually(lambda: service.submissions)
        started = time.monotonic()
        client.evaluate(submission("second"))
        assert time.monotonic() - started >= 1.0
        blocker.join()


def test_retry_after_is_seconds_or_a_date():
    later = format_datetime(datetime.now(UTC) + timedelta(seconds=30), usegmt=True)
    assert transport._seconds("7") == 7
    assert 25 < transport._seconds(later) <= 30
    assert transport._seconds("Wed, 21 Oct 2015 07:28:00 GMT") == 0
    assert transport._seconds(None) is None


@given(st.text())
def test_any_retry_after_is_understood_or_left_alone(text):
    found = transport._seconds(text)
    assert found is None or found >= 0


def test_where_nothing_listens_it_gives_up_and_says_where(hasty):
    with socket.create_server(("127.0.0.1", 0)) as unused:
        port = unused.getsockname()[1]
    with (
        Client(f"http://127.0.0.1:{port}", patience_s=0.3) as client,
        pytest.raises(
            ServiceError, match=f"127.0.0.1:{port} gave no useful answer in .* the connection failed"
        ) as caught,
    ):
        client.evaluate(submission("a"))
    assert not isinstance(caught.value, EvaluatorError)
    assert "assay serve" in caught.value.remedy


def test_a_service_that_never_recovers_is_given_up_with_the_id_to_resume_by(hasty):
    service = SmallService(grading_s=60)
    with away(service, wait_s=1.0, patience_s=0.2) as client:
        accepted = []

        def take_down(evaluation):
            accepted.append(evaluation.id)
            service.down = True

        with pytest.raises(ServiceError, match="the last failure: it answered 503") as caught:
            client.evaluate(submission("a"), progress=take_down)
        assert [caught.value.evaluation_id] == accepted == list(service.submissions)
        service.down = False
        service.due[accepted[0]] = 0.0
        assert client.result(accepted[0]) == verdict_of("a")


def test_a_service_out_of_reach_is_said_once_while_it_is_waited_for(monkeypatch, caplog):
    monkeypatch.setattr(transport, "_SILENCE_S", 0.3)

    async def wait():
        async with AsyncClient("http://127.0.0.1:9", patience_s=60) as client:
            await client.evaluate(submission("a"))

    with pytest.raises(TimeoutError):
        asyncio.run(asyncio.wait_for(wait(), 3))
    (said,) = [record.getMessage() for record in caplog.records if record.name == "assay.client"]
    assert said.startswith("http://127.0.0.1:9 is out of reach: the connection failed")
    assert "assay serve" in said


def test_a_service_that_is_never_up_for_as_long_as_a_wait_is_waited_for_in_short_looks(hasty):
    service = SmallService(grading_s=2.0)
    with away(service, ["impatient"] * 1000, wait_s=10.0, patience_s=1.5) as client:
        assert client.evaluate(submission("a")) == verdict_of("a")
    assert len(service.submissions) == 1


def test_what_a_service_says_that_it_lacks_is_told_from_being_out_of_reach():
    async def looks(url):
        async with AsyncClient(url) as client:
            return await client.why_not_ready(), await client.why_not_ready(own_word=True)

    said, own = asyncio.run(looks("http://127.0.0.1:9"))
    assert ("connection failed" in said, own) == (True, None)
    with away(SmallService(down=True)) as client:
        assert asyncio.run(looks(client.url)) == ("it answered 503 Service Unavailable", None)
    with away(SmallService(unready="No worker is alive.")) as client:
        said, own = asyncio.run(looks(client.url))
    assert (said, own) == ("it answered 503 Service Unavailable: No worker is alive", "No worker is alive.")


def test_what_a_service_lacks_for_one_backend_is_told_apart():
    async def looks(url):
        async with AsyncClient(url) as client:
            return [
                await client.why_not_ready(own_word=own, backend=backend)
                for own in (False, True)
                for backend in ("auto", "gpu", "sim")
            ]

    lacks = {"gpu": "No worker with a GPU is alive.", "sim": None}
    with away(SmallService(lacks=lacks)) as client:
        assert asyncio.run(looks(client.url)) == [None, lacks["gpu"], None] * 2
    with away(SmallService(lacks=lacks, unready="No GPU can be used: why")) as client:
        first, *rest = asyncio.run(looks(client.url))
    assert first == "it answered 503 Service Unavailable: No GPU can be used: why"
    assert rest == [lacks["gpu"], None, "No GPU can be used: why", lacks["gpu"], None]
    with away(SmallService(unready="No worker is alive.")) as client:  # one of before
        assert asyncio.run(looks(client.url))[3:] == ["No worker is alive."] * 3


def test_what_asks_for_a_gpu_that_is_away_keeps_nothing_else_waiting():
    async def beside(url):
        async with AsyncClient(url) as client:
            on_gpu = asyncio.create_task(client.evaluate(Submission(problem="vector_add", source="a", backend="gpu")))
            while not service.asked["POST 503"]:
                await asyncio.sleep(0.01)
            found = await asyncio.wait_for(client.evaluate(submission("b")), 20)
            assert not on_gpu.done()
            on_gpu.cancel()
            await asyncio.wait({on_gpu}, timeout=0.1)
            return found

    service = SmallService(no_gpu=True)
    with away(service) as client:
        assert asyncio.run(beside(client.url)) == verdict_of("b")


def test_a_service_that_says_at_once_why_it_takes_nothing_is_said_to_have_answered():
    with away(SmallService(no_gpu=True), patience_s=5) as client, pytest.raises(ServiceError) as caught:
        client.evaluate(Submission(problem="vector_add", source="a", backend="gpu"))
    said = f"The service at {client.url}: it answered 503 Service Unavailable: No worker can serve this now."
    assert str(caught.value) == said


@pytest.mark.parametrize("path", ["/evaluate", "/problems", "/docs/", "/?a=1"])
def test_an_address_with_a_path_where_no_service_is_gets_told_to_drop_it(service, path):
    with Client(f"{service.url}{path}", patience_s=5) as client, pytest.raises(RequestRefusedError) as caught:
        client.evaluate(submission("a"))
    leave = f"Leave {path.rstrip('/')} out of the address, unless the service itself is there: {service.url}"
    assert caught.value.remedy == leave
    with Client(service.url) as client, pytest.raises(RequestRefusedError, match="404") as caught:
        client.get("ev_of_nobody")
    assert "address" not in caught.value.remedy


def test_a_refusal_is_final_and_tells_what_to_do():
    service = SmallService(key="assay_right")
    with away(service, key="assay_wrong") as client:
        with pytest.raises(
            RequestRefusedError, match="401 Unauthorized: No valid key: This service needs a key"
        ) as caught:
            client.evaluate(submission("a"))
        assert caught.value.status_code == 401
        assert caught.value.remedy == "Set ASSAY_KEY to a key that is valid there."
    assert service.asked == {"POST 401": 1}
    with away(service, key="assay_right") as client:
        assert client.evaluate(submission("a")) == verdict_of("a")
        with pytest.raises(RequestRefusedError, match="404"):
            client.get("ev_of_nobody")
        with pytest.raises(RequestRefusedError, match="404"):  # an id is no way to another path
            client.get(f"x/../{next(iter(service.submissions))}")


def test_where_patience_ends_the_remedy_is_that_of_the_service(hasty):
    with (
        away(SmallService(places=0), patience_s=0.3) as client,
        pytest.raises(ServiceError, match=r"it answered 429 .*Too many at once") as caught,
    ):
        client.evaluate(submission("a"))
    assert caught.value.remedy == "Send fewer."


def test_our_own_fault_is_an_exception_and_never_a_verdict():
    service = SmallService(fault_sources=frozenset({"7"}))
    with away(service) as client:
        with pytest.raises(EvaluatorError, match="verdict of 7") as caught:
            client.evaluate(submission(7))
        assert caught.value.verdict.status is Status.INTERNAL_ERROR
        assert caught.value.verdict.reward is None
        assert caught.value.evaluation_id in service.submissions
        outcomes = client.evaluate_each(map(submission, range(20)), concurrency=4)
        with pytest.raises(EvaluatorError, match="verdict of 7"):
            client.evaluate_many(map(submission, range(20)), concurrency=4)
    assert [isinstance(one, EvaluatorError) for one in outcomes] == [number == 7 for number in range(20)]


def test_the_first_fault_of_many_drops_what_is_under_way():
    service = SmallService(grading_s=0.3, fault_sources=frozenset({"0"}))
    with away(service) as client, pytest.raises(EvaluatorError):
        client.evaluate_many(map(submission, range(40)), concurrency=4)
    asked = len(service.submissions)
    assert asked <= 8
    assert {service.submissions[one].source for one in service.dropped} <= {str(number) for number in range(1, asked)}


@pytest.mark.parametrize("body", [b'{"id": "ev_1", "state": "finished"}', b"[]", b'"done"', b"null", b"[" * 5000])
def test_what_is_no_evaluation_is_no_verdict(body, hasty):
    with away(SmallService(body=body), patience_s=0.2) as client, pytest.raises(ServiceError):
        client.evaluate(submission("a"))


def test_the_verdict_of_another_submission_is_no_verdict():
    service = SmallService()
    with away(service) as client:
        client.evaluate(submission("other"))
        service.body = service.shown(next(iter(service.submissions)), True)
        with pytest.raises(ServiceError, match="another submission"):
            client.evaluate(submission("mine"))
        with pytest.raises(ServiceError, match="another evaluation"):
            client.get(list(service.submissions)[1])


def test_an_answer_without_end_is_not_kept(hasty, monkeypatch):
    monkeypatch.setattr(transport, "_MAX_ANSWER_BYTES", 1000)
    with (
        away(SmallService(body=b"x" * 100_000), patience_s=0.1) as client,
        pytest.raises(ServiceError, match="sent more"),
    ):
        client.evaluate(submission("a"))


def test_an_evaluation_that_the_service_has_lost_is_sent_again():
    service = SmallService(forgets=1)
    with away(service) as client:
        assert client.evaluate(submission("a")) == verdict_of("a")
        service.forgets = 5
        with pytest.raises(ServiceError, match="keeps losing"):
            client.evaluate(submission("b"))


def test_fresh_asks_for_a_new_verdict():
    service = SmallService()
    with away(service) as client:
        client.evaluate(submission("a"))
        client.evaluate(submission("a"), fresh=True)
    assert service.queries == ["", "fresh=true"]


def test_who_is_cancelled_drops_the_evaluation_with_or_without_its_id():
    service = SmallService(grading_s=30)

    async def cancelled(url, wait_s):
        async with AsyncClient(url, wait_s=wait_s) as client:
            before = len(service.submissions)
            task = asyncio.create_task(client.evaluate(submission(wait_s)))
            while len(service.submissions) == before or (wait_s == 1.0 and service.asked["POST 202"] == 0):
                await asyncio.sleep(0.01)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

    with away(service) as client:
        asyncio.run(cancelled(client.url, 1.0))  # the id is known, a GET waits
        asyncio.run(cancelled(client.url, 20.0))  # the first POST still waits
    assert service.dropped == list(service.submissions)
    assert len(service.dropped) == 2


def test_ctrl_c_drops_what_is_under_way():
    service = SmallService(grading_s=30)
    with away(service) as client:

        def interrupt():
            if eventually(lambda: len(service.submissions) == 3):
                os.kill(os.getpid(), signal.SIGINT)

        pressed = threading.Thread(target=interrupt)
        pressed.start()
        with pytest.raises(KeyboardInterrupt):
            client.evaluate_many(map(submission, range(9)), concurrency=3)
        pressed.join()
        assert sorted(service.dropped) == sorted(service.submissions)


def test_a_callback_that_raises_drops_the_evaluation_and_runs_in_the_callers_thread():
    service = SmallService(grading_s=30)
    threads = []

    def stop(evaluation):
        threads.append(threading.current_thread())
        raise LookupError(evaluation.id)

    with away(service) as client:
        with pytest.raises(LookupError) as caught:
            client.evaluate(submission("a"), progress=stop)
        assert service.dropped == [caught.value.args[0]]
    assert threads == [threading.main_thread()]


def test_drop_and_get_by_id():
    service = SmallService(grading_s=30)
    with away(service, wait_s=1.0) as client:
        ids = []
        waiting = threading.Thread(target=client.evaluate, args=[submission("a")], kwargs={"progress": ids.append})
        waiting.start()
        assert eventually(lambda: ids)
        assert client.get(ids[0].id).state == "running"
        client.drop(ids[0].id)
        assert client.get(ids[0].id).verdict.status is Status.CANCELLED
        waiting.join()
        assert client.result(ids[0].id).status is Status.CANCELLED


def test_many_threads_share_one_client():
    service = SmallService(grading_s=0.05)
    found = {}
    with away(service) as client:

        def grade(number):
            found[number] = client.evaluate(submission(number))

        threads = [threading.Thread(target=grade, args=[number]) for number in range(16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert found == {number: verdict_of(str(number)) for number in range(16)}


def test_a_forked_process_goes_on_with_the_same_client():
    with away(SmallService()) as client:
        client.evaluate(submission("before"))
        child = os.fork()
        if child == 0:
            answer = 1
            with contextlib.suppress(BaseException):
                answer = 0 if client.evaluate(submission("child")) == verdict_of("child") else 2
            os._exit(answer)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert client.evaluate(submission("after")) == verdict_of("after")


def test_a_closed_client_opens_again():
    with away(SmallService()) as client:
        client.evaluate(submission("a"))
        client.close()
        assert client.evaluate(submission("b")) == verdict_of("b")


@pytest.mark.parametrize(
    "url",
    [
        "",
        "127.0.0.1:8000",
        "ftp://127.0.0.1",
        "http://",
        "http://[::",
        "file:///etc/passwd",
        "http://a:999999",
        "http://a:0",
        "http://a b",
    ],
)
def test_an_address_that_is_none_is_said_at_once(url):
    with pytest.raises(ValueError, match="no address of a service"):
        Client(url)


@pytest.mark.parametrize("key", ["assay_se\ncret", "assay_se cret", "assay_secretключ", "assay_secret\x00"])
def test_a_key_that_no_header_can_hold_is_said_at_once_and_not_shown(key):
    with pytest.raises(ValueError, match="copy it again") as refused:
        Client("http://127.0.0.1:8000", key)
    assert "assay_" not in str(refused.value)
    assert "cret" not in str(refused.value)


def test_every_error_is_a_missing_verdict():
    assert all(issubclass(kind, NoVerdictError) for kind in (RequestRefusedError, ServiceError, EvaluatorError))
