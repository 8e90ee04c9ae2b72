"""Every route over a real socket, on a real database, with the test as the worker."""

import base64
import contextlib
import gzip
import hashlib
import html
import json
import re
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest
from api_service import ADD, events, facts, lines, served, submission, unready
from storage_samples import ended, tallied

from common.client import Client
from common.contract import Evaluation, ProblemFace, Status, Submission, Verdict
from evaluator.errors import StorageError
from evaluator.problems.catalogue import problems
from evaluator.service.api import callers, routes, schemas
from evaluator.stages.screen.cleaning import clean

PROBLEM_TYPE = "urn:assay:problem:"
BROWSER = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"


@pytest.fixture
def here(tmp_path):
    with served(f"sqlite:///{tmp_path / 'assay.db'}", tmp_path, wait_s=5) as serving:
        yield serving


@pytest.fixture
def http(here):
    with here.http() as client:
        yield client


def post(http, body=None, **headers):
    return http.post("/evaluate", json=submission() if body is None else body, headers=headers)


def refused(answer, status, name):
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    problem = answer.json()
    assert problem["type"] == PROBLEM_TYPE + name
    assert problem["status"] == status
    assert problem["request_id"] == answer.headers["x-request-id"]
    assert len(problem["detail"]) > 10
    assert len(problem["remedy"]) > 5
    return problem


def later(act, delay_s=0.2):
    thread = threading.Thread(target=lambda: (time.sleep(delay_s), act()))
    thread.start()
    return thread


# One evaluation


def test_a_verdict_is_waited_for_and_is_the_answer(here, http):
    working = later(here.work)
    answer = post(http)
    working.join()
    assert answer.status_code == 200
    evaluation = Evaluation.model_validate_json(answer.content)
    assert (evaluation.state, evaluation.verdict.status) == ("done", Status.UNSUPPORTED)
    assert evaluation.submission.source == ADD
    assert here.announced == [(evaluation.id, "compile")]


def test_a_source_above_the_limit_has_its_verdict_at_once_and_is_not_kept(here, http):
    source = "é" * (1 << 19) + "x"
    answer = post(http, submission(source=source), **{"Idempotency-Key": "long"})
    assert answer.status_code == 200
    done = Evaluation.model_validate_json(answer.content)
    assert (done.state, done.verdict.status, done.verdict.phase) == ("done", "invalid_submission", "screen")
    by_a_worker = clean(source.encode()).ruling
    assert (done.verdict.message, done.verdict.hint) == (by_a_worker.message, by_a_worker.hint)
    assert (done.verdict.reward.value, done.verdict.receipt) == (0, None)
    assert hashlib.sha256(source.encode()).hexdigest() in done.submission.source
    assert len(done.submission.source) < 200
    assert (here.announced, here.storage.evaluations.depth()) == ([], {})
    # The whole text is what its Idempotency-Key stands for.
    again = post(http, submission(source=source), **{"Idempotency-Key": "long"})
    assert (again.headers["x-assay-reused"], again.json()["id"]) == ("true", done.id)
    refused(post(http, submission(source=source + "x"), **{"Idempotency-Key": "long"}), 422, "idempotency-clash")
    refused(post(http, submission(source=source, problem="no_such")), 422, "unknown-problem")


def test_the_client_takes_the_verdict_on_a_source_that_is_not_kept(here):
    with Client(here.url) as client:
        verdict = client.evaluate(Submission(problem="vector_add", source="x" * (2 << 20)))
    assert verdict.status is Status.INVALID_SUBMISSION


def test_what_takes_longer_is_accepted_with_its_address(here, http):
    answer = post(http, Prefer="wait=1")
    assert answer.status_code == 202
    assert answer.headers["preference-applied"] == "wait=1"
    evaluation = Evaluation.model_validate_json(answer.content)
    assert evaluation.state == "queued"
    there = http.get(answer.headers["location"])
    assert there.status_code == 200
    assert Evaluation.model_validate_json(there.content) == evaluation


@pytest.mark.parametrize("prefer", ["respond-async", "wait=0", "return=minimal, Respond-Async", "wait=0;foo=1"])
def test_whoever_does_not_want_to_wait_does_not(http, prefer):
    started_s = time.monotonic()
    assert post(http, Prefer=prefer).status_code == 202
    assert time.monotonic() - started_s < 2


def test_a_preference_that_is_none_is_ignored(here, http):
    working = later(here.work)
    answer = post(http, Prefer="wait=soon, handling=lenient")
    working.join()
    assert answer.status_code == 200
    assert "preference-applied" not in answer.headers


def test_an_evaluation_can_be_waited_for_by_its_id(here, http):
    path = post(http, Prefer="wait=0").headers["location"]
    working = later(here.work)
    started_s = time.monotonic()
    answer = http.get(path, headers={"Prefer": "wait=10"})
    took_s = time.monotonic() - started_s
    working.join()
    assert answer.json()["state"] == "done"
    assert took_s < 3


def test_a_verdict_that_exists_answers_a_repeat(here, http):
    here.storage.workers.register(facts())
    post(http, Prefer="wait=0")
    lease = here.work(ended(Status.UNSUPPORTED))
    again = post(http)
    assert (again.status_code, again.headers["x-assay-reused"]) == (200, "true")
    assert again.json()["id"] == lease.evaluation_id
    fresh = http.post("/evaluate?fresh=true", json=submission(), headers={"Prefer": "wait=0"})
    assert fresh.status_code == 202
    assert fresh.json()["id"] != lease.evaluation_id


@pytest.mark.parametrize(
    "changes",
    [{"toolchain": "nvcc 14.0"}, {"arch": "sm_100"}, {"grader_version": "9"}, {"backend": "gpu", "device": "a GPU"}],
)
def test_another_fleet_may_judge_otherwise(here, http, changes):
    here.storage.workers.register(facts())
    post(http, Prefer="wait=0")
    here.work()
    here.storage.workers.register(facts(**changes))
    time.sleep(1.1)  # what is known of the fleet may be a second old
    assert post(http, Prefer="wait=0").status_code == 202


def test_the_same_idempotency_key_is_the_same_evaluation(here, http):
    first = post(http, Prefer="wait=0", **{"Idempotency-Key": "k-1"}).json()
    again = post(http, Prefer="wait=0", **{"Idempotency-Key": "k-1"})
    assert again.json()["id"] == first["id"]
    assert again.headers["x-assay-reused"] == "true"
    assert len(here.announced) == 1
    other = post(http, submission(problem="saxpy"), **{"Idempotency-Key": "k-1"})
    refused(other, 422, "idempotency-clash")
    long = refused(post(http, **{"Idempotency-Key": "k" * 201}), 422, "invalid-request")
    assert "it must have 1 to 200 printable ASCII characters" in long["detail"]


def test_dropping_cancels_what_waits_and_tells_those_who_wait(here, http):
    path = post(http, Prefer="wait=0").headers["location"]
    dropping = later(lambda: http.delete(path))
    with here.http() as other:
        answer = other.get(path, headers={"Prefer": "wait=10"})
    dropping.join()
    assert answer.json()["verdict"]["status"] == "cancelled"
    assert http.delete(path).json()["state"] == "done"


def test_dropping_what_runs_asks_its_worker_to_stop(here, http):
    path = post(http, Prefer="wait=0").headers["location"]
    lease = here.storage.leases.claim(["compile"], "w1", 30)
    assert http.delete(path).json()["state"] == "running"
    assert here.storage.leases.renew(lease, 30) is False


def test_a_caller_who_goes_away_is_not_waited_for(here, http):
    path = post(http, Prefer="wait=0").headers["location"]
    with pytest.raises(httpx.ReadTimeout):
        httpx.get(here.url + path, headers={"Prefer": "wait=30"}, timeout=0.3)
    deadline_s = time.monotonic() + 20
    while here.watch.count and time.monotonic() < deadline_s:
        time.sleep(0.02)
    assert here.watch.count == 0


# Many evaluations


def test_a_batch_streams_its_verdicts_as_they_finish(here, http):
    bodies = [submission(source=f"{ADD} // {i}") for i in range(3)]
    with http.stream("POST", "/evaluate/batch", json={"submissions": bodies}) as answer:
        assert answer.headers["content-type"] == "application/x-ndjson"
        found = []
        each = answer.iter_lines()
        for _ in bodies:
            lease = here.work()
            found.append(json.loads(next(line for line in each if line)))
            assert found[-1]["evaluation"]["id"] == lease.evaluation_id
            assert found[-1]["evaluation"]["submission"]["source"] == bodies[found[-1]["index"]]["source"]
        assert list(each) == []
    assert sorted(line["index"] for line in found) == [0, 1, 2]


def test_one_bad_submission_of_a_batch_does_not_hold_up_the_others(here, http):
    bodies = [submission(), submission(problem="vector_ad"), submission(settings={"sizes": {"m": 1}})]
    answer = http.post("/evaluate/batch", json={"submissions": bodies}, headers={"Prefer": "wait=0"})
    found = {line["index"]: line for line in lines(answer)}
    assert found[0]["evaluation"]["state"] == "queued"
    assert found[1]["error"]["type"] == PROBLEM_TYPE + "unknown-problem"
    assert "vector_add" in found[1]["error"]["remedy"]
    assert found[2]["error"]["type"] == PROBLEM_TYPE + "invalid-request"


def test_a_batch_that_nobody_waits_for_gives_ids(here, http):
    headers = {"Prefer": "respond-async", "Idempotency-Key": "b"}
    body = {"submissions": [submission(), submission(problem="saxpy")]}
    answer = http.post("/evaluate/batch", json=body, headers=headers)
    assert answer.status_code == 202
    ids = [line["evaluation"]["id"] for line in answer.json()["items"]]
    again = http.post("/evaluate/batch", json=body, headers=headers)
    assert [line["evaluation"]["id"] for line in again.json()["items"]] == ids
    alone = post(http, Prefer="wait=0", **{"Idempotency-Key": "b/0"})
    assert alone.json()["id"] == ids[0]


def test_equal_submissions_of_a_batch_each_get_their_line(here, http):
    here.storage.workers.register(facts())
    post(http, Prefer="wait=0")
    here.work()
    answer = http.post("/evaluate/batch", json={"submissions": [submission()] * 3})
    assert sorted(line["index"] for line in lines(answer)) == [0, 1, 2]
    assert len({line["evaluation"]["id"] for line in lines(answer)}) == 1


@pytest.mark.parametrize(("count", "status"), [(0, 422), (513, 422)])
def test_a_batch_has_bounds(http, count, status):
    answer = http.post("/evaluate/batch", json={"submissions": [submission()] * count})
    refused(answer, status, "invalid-request")


def test_lists_come_in_pages_newest_first_without_sources(here, http):
    ids = [post(http, submission(source=f"// {i}"), Prefer="wait=0").json()["id"] for i in range(5)]
    here.work()
    found, cursor = [], None
    for _ in range(3):
        page = http.get("/evaluations", params={"limit": 2} | ({"cursor": cursor} if cursor else {})).json()
        found += page["items"]
        cursor = page["next_cursor"]
    assert cursor is None
    assert [one["id"] for one in found] == ids[::-1]
    assert all("submission" not in one for one in found)
    done = http.get("/evaluations", params={"state": "done", "status": "unsupported", "problem": "vector_add"}).json()
    assert [(one["id"], one["status"], one["backend"]) for one in done["items"]] == [(ids[0], "unsupported", "sim")]
    refused(http.get("/evaluations?cursor=nonsense"), 422, "invalid-request")


def test_a_list_says_what_a_table_of_results_needs(here, http):
    for each in range(3):
        post(http, submission(source=f"// {each}"), Prefer="wait=0")
    verdict = Verdict.model_validate(schemas.DONE["compile_error"]["value"]["verdict"])
    earned = verdict.reward.model_copy(update={"value": 0.25, "maximum": 0.75})
    here.work(verdict.model_copy(update={"reward": earned}))
    here.work(ended(status=Status.INTERNAL_ERROR))
    said = [
        {name: one[name] for name in ("status", "quick", "speedup", "estimated_speedup", "reward", "reward_maximum")}
        for one in http.get("/evaluations").json()["items"]
    ]
    none = {"quick": False, "speedup": None, "estimated_speedup": None, "reward": None, "reward_maximum": None}
    assert said == [
        {"status": None, **none},
        {"status": "internal_error", **none},
        {"status": "compile_error", **none, "reward": 0.25, "reward_maximum": 0.75},
    ]


# Live


def test_events_tell_progress_and_end_with_the_verdict(here, http):
    path = post(http, Prefer="wait=0").headers["location"]
    with http.stream("GET", f"{path}/events") as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        stream = events(answer)
        first = next(one for one in stream if "data" in one)
        assert (first["event"], json.loads(first["data"])["state"]) == ("progress", "queued")
        working = later(lambda: here.work(told="verify"))
        rest = list(stream)
        working.join()
    assert rest[-1]["event"] == "done"
    assert Evaluation.model_validate_json(rest[-1]["data"]).verdict.status is Status.UNSUPPORTED
    versions = [int(one["id"]) for one in [first, *rest]]
    assert versions == sorted(set(versions))
    over = http.get(f"{path}/events", headers={"Last-Event-ID": rest[-1]["id"]})
    assert over.status_code == 204


def test_events_go_on_after_the_last_one_seen(here, http):
    path = post(http, Prefer="wait=0").headers["location"]
    with http.stream("GET", f"{path}/events") as answer:
        seen = next(one for one in events(answer) if "data" in one)["id"]
    here.work()
    with http.stream("GET", f"{path}/events", headers={"Last-Event-ID": seen}) as answer:
        told = [one for one in events(answer) if "data" in one]
    assert [one["event"] for one in told] == ["done"]


def test_a_stream_without_news_shows_that_it_lives(here, http, monkeypatch):
    monkeypatch.setattr(routes, "HEARTBEAT_S", 0.1)
    path = post(http, Prefer="wait=0").headers["location"]
    with http.stream("GET", f"{path}/events") as answer:
        told = list(events(answer, most=4))
    assert sum(one.get("comment") == "heartbeat" for one in told) >= 2


# Who may


@pytest.fixture
def keyed(here):
    """A user, another user and an admin; their clients."""
    clients = {}
    for name, admin in (("ann", False), ("bob", False), ("eve", True)):
        _, secret = here.storage.keys.create(name, admin=admin)
        clients[name] = here.http(headers={"Authorization": f"Bearer {secret}"})
    yield clients
    for client in clients.values():
        client.close()


def test_with_keys_nobody_comes_in_without_one(keyed, http):
    for method, path in [
        ("POST", "/evaluate"),
        ("POST", "/evaluate/batch"),
        ("GET", "/evaluations"),
        ("GET", "/evaluations/ev_0123456789012345678901"),
        ("DELETE", "/evaluations/ev_0123456789012345678901"),
        ("GET", "/evaluations/ev_0123456789012345678901/events"),
        ("GET", "/evaluations/ev_0123456789012345678901/receipt"),
        ("GET", "/problems"),
        ("GET", "/problems/relu"),
        ("GET", "/metrics"),
    ]:
        body = {"json": submission()} if path == "/evaluate" else {}
        if path == "/evaluate/batch":
            body = {"json": {"submissions": [submission()]}}
        answer = http.request(method, path, **body)
        refused(answer, 401, "unauthorized")
        assert answer.headers["www-authenticate"].startswith("Bearer")
    for path in ("/livez", "/version"):
        assert http.get(path).status_code == 200
    assert http.get("/readyz").status_code == 503


@pytest.mark.parametrize("secret", ["assay_", "assay_" + "x" * 43, "Bearer", "assay_" + "é" * 43, "x" * 5000])
def test_a_wrong_key_is_no_key(keyed, http, secret):
    answer = http.get("/evaluations", headers={"Authorization": f"Bearer {secret}".encode("latin-1")})
    refused(answer, 401, "unauthorized")


def test_a_key_sees_its_own_evaluations_and_an_admin_all(keyed):
    path = post(keyed["ann"], Prefer="wait=0").headers["location"]
    assert keyed["ann"].get(path).status_code == 200
    refused(keyed["bob"].get(path), 404, "not-found")
    refused(keyed["bob"].delete(path), 404, "not-found")
    refused(keyed["bob"].get(f"{path}/events"), 404, "not-found")
    refused(keyed["bob"].get(f"{path}/receipt"), 404, "not-found")
    assert keyed["bob"].get("/evaluations").json()["items"] == []
    assert keyed["eve"].get(path).status_code == 200
    assert len(keyed["eve"].get("/evaluations").json()["items"]) == 1
    refused(keyed["ann"].get("/metrics"), 403, "forbidden")
    assert keyed["eve"].get("/metrics").status_code == 200


def test_a_receipt_is_the_verdict_as_a_file(here, http):
    path = post(http, Prefer="wait=0").headers["location"]
    refused(http.get(f"{path}/receipt"), 404, "not-found")
    here.work()
    answer = http.get(f"{path}/receipt")
    assert answer.json() == http.get(path).json()["verdict"]
    assert answer.headers["content-disposition"] == f'attachment; filename="{path.rpartition("/")[2]}.receipt.json"'


def test_the_version_names_the_keys_that_sign_here(here, http):
    assert http.get("/version").json()["signing_keys"] == []
    for worker, key in (("w1", "b" * 64), ("w2", "a" * 64), ("w3", "a" * 64), ("w4", None)):
        here.storage.workers.register(facts(id=worker, signing_key=key))
    patience = time.monotonic() + 60
    while time.monotonic() < patience and not http.get("/version").json()["signing_keys"]:
        time.sleep(0.05)
    assert http.get("/version").json()["signing_keys"] == ["a" * 64, "b" * 64]


def test_verdicts_are_not_shared_between_keys(here, keyed):
    here.storage.workers.register(facts())
    post(keyed["ann"], Prefer="wait=0")
    here.work()
    assert post(keyed["bob"], Prefer="wait=0").status_code == 202
    assert post(keyed["ann"], Prefer="wait=0").status_code == 200


def test_revoked_and_expired_keys_open_nothing_and_the_server_stays_closed(here, http):
    revoked, secret = here.storage.keys.create("gone")
    _, expired = here.storage.keys.create("old", expires_at=time.time() - 1)
    assert here.storage.keys.revoke(revoked.id)
    for one in (secret, expired):
        refused(http.get("/evaluations", headers={"Authorization": f"Bearer {one}"}), 401, "unauthorized")
    refused(http.get("/evaluations"), 401, "unauthorized")


@pytest.mark.parametrize(
    ("header", "known"),
    [
        *(("Bearer {}", True), ("bearer {}", True), ("BEARER   {}", True)),
        *(("{}", False), ("Basic {}", False), ("Bearer", False), ("Bearer {} x", False), ("Bearer: {}", False)),
    ],
)
def test_a_key_is_read_alike_wherever_it_comes(here, http, header, known):
    _, secret = here.storage.keys.create("ann")
    sent = {"Authorization": header.format(secret)}
    assert post(http, Prefer="wait=0", **sent).status_code == (202 if known else 401)
    assert http.get("/evaluations", headers=sent).status_code == (200 if known else 401)
    assert http.get("/", headers={**sent, "Accept": BROWSER}).status_code == (200 if known else 401)


def test_the_first_key_closes_an_open_server_within_a_second(here, http):
    assert http.get("/evaluations").status_code == 200
    here.storage.keys.create("first")
    time.sleep(1.1)
    refused(http.get("/evaluations"), 401, "unauthorized")


def test_quotas_say_when_to_come_back(here, http):
    _, secret = here.storage.keys.create("few", concurrent=1)
    headers = {"Authorization": f"Bearer {secret}", "Prefer": "wait=0"}
    assert http.post("/evaluate", json=submission(), headers=headers).status_code == 202
    answer = http.post("/evaluate", json=submission(source="// 2"), headers=headers)
    refused(answer, 429, "quota-exceeded")
    assert int(answer.headers["retry-after"]) >= 1
    whole = http.post("/evaluate/batch", json={"submissions": [submission(source="// 3")]}, headers=headers)
    refused(whole, 429, "quota-exceeded")


def test_a_refused_body_costs_its_share_of_the_quota(here, http):
    _, secret = here.storage.keys.create("careless", per_minute=4)
    _, other = here.storage.keys.create("another", per_minute=1)
    headers = {"Authorization": f"Bearer {secret}", "Prefer": "wait=0"}
    refused(http.post("/evaluate", json={"plan": {"steps": [1] * 9}}, headers=headers), 422, "invalid-request")
    assert http.post("/evaluate", json=submission(), headers=headers).status_code == 202
    too_much = submission(plan={"steps": [1] * 600_000})  # of more than 1 MiB: it costs two
    refused(http.post("/evaluate", json=too_much, headers=headers), 422, "invalid-request")
    answer = http.post("/evaluate", json=submission(source="// 2"), headers=headers)
    refused(answer, 429, "quota-exceeded")
    assert "4 evaluations in one minute" in answer.json()["detail"]
    refused(http.post("/evaluate", json=[], headers=headers), 422, "invalid-request")
    unread = http.post("/evaluate", content=b"no JSON", headers=headers)
    refused(unread, 429, "quota-exceeded")
    assert 1 <= int(unread.headers["retry-after"]) <= 60
    headers["Authorization"] = f"Bearer {other}"
    assert http.post("/evaluate", json=submission(), headers=headers).status_code == 202


def test_a_full_queue_says_when_to_come_back(tmp_path):
    with served(f"sqlite:///{tmp_path / 'a.db'}", tmp_path, max_queued=1) as here, here.http() as http:
        assert post(http, Prefer="wait=0").status_code == 202
        answer = post(http, submission(source="// 2"), Prefer="wait=0")
        refused(answer, 503, "queue-full")
        assert int(answer.headers["retry-after"]) >= 1


def test_keys_can_be_demanded_before_there_is_one(tmp_path):
    with served(f"sqlite:///{tmp_path / 'a.db'}", tmp_path, require_keys=True) as here, here.http() as http:
        refused(http.get("/evaluations"), 401, "unauthorized")
        assert http.get("/livez").status_code == 200


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "localhost.evil.example:80", "[::2]"])
def test_an_open_server_answers_only_to_this_machines_names(http, host):
    """A web page whose name its owner points at 127.0.0.1 is of the same origin as this server, for a browser."""
    refused(http.get("/evaluations", headers={"Host": host}), 421, "misdirected")


@pytest.mark.parametrize("host", ["localhost:8000", "127.0.0.1", "[::1]:80", "LOCALHOST"])
def test_names_of_this_machine(http, host):
    assert http.get("/evaluations", headers={"Host": host}).status_code == 200


def test_with_keys_any_name_will_do(keyed):
    assert keyed["ann"].get("/evaluations", headers={"Host": "grader.example"}).status_code == 200


# What is refused, in words


@pytest.mark.parametrize(
    ("body", "name", "said"),
    [
        (submission(problem="relo"), "unknown-problem", "relu"),
        (submission(source=3), "invalid-request", "source must be a text"),
        ({"problem": "relu"}, "invalid-request", "source is missing"),
        (submission(sauce=""), "invalid-request", "sauce is not known here (perhaps `source` is meant)"),
        (submission(verification="quick"), "invalid-request", "verification is not known here, but in `settings`"),
        ({"source": ""}, "invalid-request", "no `reference`: one of the two says what to grade for"),
        (submission(settings={"run_timeout_s": 99}), "invalid-request", "settings.run_timeout_s must be at most 30"),
        (submission(settings={"sizes": {"n": 0}}), "invalid-request", "out of range"),
        (submission(settings={"sizes": {"m": 1}}), "invalid-request", "no size named m"),
        (submission(backend="tpu"), "invalid-request", "backend must be"),
        ([], "invalid-request", "The body must be an object"),
        (None, "invalid-request", "The body"),
    ],
)
def test_what_cannot_be_used_is_said_in_plain_words(http, body, name, said):
    answer = http.post("/evaluate", content=json.dumps(body), headers={"Content-Type": "application/json"})
    problem = refused(answer, 422, name)
    assert said in problem["detail"] + (problem.get("remedy") or "")


@pytest.mark.parametrize(
    "text", ["{", '{"problem": "\\ud800"}', "[" * 5000, "\x00", '"\\x"', '{"a": 1} {}', '"' + "\\u0000" * 10]
)
def test_what_is_no_json_is_said_to_be_none(http, text):
    answer = http.post("/evaluate", content=text, headers={"Content-Type": "application/json"})
    assert "JSON" in refused(answer, 422, "invalid-request")["detail"]


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", None, "application/jsonx"])
def test_json_must_be_said_to_be_json(http, kind):
    """A web page may send these kinds to another site without being asked; JSON it may not."""
    headers = {"Content-Type": kind} if kind else {}
    answer = http.post("/evaluate", content=json.dumps(submission()), headers=headers)
    refused(answer, 415, "unsupported-media-type")


def test_a_gpu_that_nobody_has_is_refused_for_now(here, http):
    here.storage.workers.register(facts())
    answer = post(http, submission(backend="gpu"))
    refused(answer, 503, "no-worker")
    assert int(answer.headers["retry-after"]) >= 1
    here.storage.workers.register(facts(id="w2", backend="gpu", queues=("gpu",), device="a GPU"))
    time.sleep(1.1)
    key = {"Prefer": "wait=0", "Idempotency-Key": "the-first"}
    taken = post(http, submission(backend="gpu"), **key)
    assert taken.status_code == 202
    # Whose answer got lost asks again, and hears what became of it, whoever is there now.
    here.storage.workers.gone("w2")
    time.sleep(1.1)
    refused(post(http, submission(backend="gpu"), **key | {"Idempotency-Key": "another"}), 503, "no-worker")
    again = post(http, submission(backend="gpu"), **key)
    assert (again.status_code, again.json()["id"]) == (202, taken.json()["id"])


def test_what_is_done_is_not_sent_twice(here, http):
    path = post(http, Prefer="wait=0").headers["location"]
    assert "etag" not in http.get(path).headers
    here.work()
    done = http.get(path)
    known = {"If-None-Match": f'"another", {done.headers["etag"]}'}
    for of in (path, f"{path}/receipt"):
        again = http.get(of, headers=known)
        assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", done.headers["etag"])
    assert http.get(path, headers={"If-None-Match": '"another"'}).json() == done.json()
    assert "Accept" in done.headers["vary"].split(", ")


def test_head_is_answered_wherever_get_is_and_waits_for_nothing(here, http):
    path = post(http, Prefer="wait=0").headers["location"]
    for one in ("/livez", "/problems", "/evaluations", path, f"{path}/events", "/docs", "/openapi.json"):
        answer = http.head(one, headers={"Prefer": "wait=600"})
        assert (answer.status_code, answer.content) == (200, b""), one
    whole = http.get("/livez")
    assert http.head("/livez").headers["content-length"] == whole.headers["content-length"]
    assert http.head("/nowhere").status_code == 404
    assert http.head("/evaluate").headers["allow"] == "POST"


def test_a_path_names_all_of_its_methods(http):
    path = post(http, Prefer="wait=0").headers["location"]
    assert http.put(path).headers["allow"] == "DELETE, GET, HEAD"
    page = http.put(path, headers={"Accept": "text/html"})
    assert (page.status_code, page.headers["allow"]) == (405, "DELETE, GET, HEAD")


def test_documents_are_sent_small_to_those_who_can_read_it(here, http):
    plain = http.get("/problems", headers={"Accept-Encoding": "gzip;q=0"})
    small = http.get("/problems", headers={"Accept-Encoding": "br, gzip"})
    assert "content-encoding" not in plain.headers
    assert (small.headers["content-encoding"], small.json()) == ("gzip", plain.json())
    assert int(small.headers["content-length"]) < int(plain.headers["content-length"]) / 2
    assert "Accept-Encoding" in plain.headers["vary"]
    # Pages hold secrets of forms, and their length would tell about them.
    page = http.get("/problems", headers={"Accept": "text/html", "Accept-Encoding": "gzip"})
    assert "content-encoding" not in page.headers


def test_a_body_is_not_unpacked(http):
    packed = gzip.compress(json.dumps(submission()).encode())
    headers = {"Content-Type": "application/json", "Content-Encoding": "gzip"}
    answer = http.post("/evaluate", content=packed, headers=headers)
    assert "gzip" in refused(answer, 415, "unsupported-media-type")["detail"]
    assert answer.headers["accept-encoding"] == "identity"


def test_no_address_is_made_of_the_host_that_a_caller_names(http):
    answer = http.get("/evaluations/", headers={"Host": "localhost.:80"})
    assert answer.status_code in (404, 421)
    assert "location" not in http.get("/evaluations/").headers


@pytest.mark.parametrize(
    ("path", "near"),
    [("/evaluations?limits=3", "limit"), ("/problems?statedby=caller", "stated_by"), ("/livez?x=", "")],
)
def test_a_query_parameter_that_nobody_knows_is_refused(http, path, near):
    said = refused(http.get(path), 422, "invalid-request")
    assert (f"did you mean {near!r}?" in said["detail"]) == bool(near)
    refused(http.post("/evaluate?frsh=true", json=submission()), 422, "invalid-request")


@pytest.mark.parametrize(
    ("path", "named", "known"),
    [
        ("/?stats=passed", "'stats'; did you mean 'status'?", "Use those that it knows: cursor, problem, status."),
        ("/live?utm_source=mail", "'utm_source'.", "Use those that it knows: cursor, problem, status."),
        ("/evaluations?limit=3", "'limit'.", "Use those that it knows: cursor, problem, status."),
        ("/evaluations/ev_0123456789012345678901?wait=3", "'wait'.", "Leave it out: this path knows none."),
        ("/problems?tier=2", "'tier'.", "Leave it out: this path knows none."),
        ("/problems/relu/starter.cu?download", "'download'.", "Leave it out: this path knows none."),
        ("/openapi.json?x", "'x'.", "Leave it out: this path knows none."),
        ("/docs?x", "'x'.", "Leave it out: this path knows none."),
    ],
)
def test_a_page_refuses_a_query_parameter_that_it_does_not_know_as_the_api_does(http, path, named, known):
    page = http.get(path, headers={"Accept": BROWSER})
    assert (page.status_code, page.headers["content-type"]) == (422, "text/html; charset=utf-8")
    words = html.unescape(page.text)
    assert f"This path knows no query parameter {named}" in words
    assert known in words
    own = path.startswith(("/?", "/live", "/docs", "/openapi")) or "starter" in path
    problem = refused(http.get(path if own else "/?stats=passed"), 422, "invalid-request")
    assert "knows" in problem["remedy"]


def test_a_query_parameter_that_stands_there_twice_is_refused(http):
    assert "'limit' is given" in refused(http.get("/evaluations?limit=3&limit=4"), 422, "invalid-request")["detail"]
    assert http.get("/?problem=relu&problem=", headers={"Accept": BROWSER}).status_code == 422


def test_a_list_of_the_api_that_a_browser_asks_for_is_the_page_with_the_same_choice(http):
    answer = http.get("/evaluations?problem=relu&status=passed", headers={"Accept": BROWSER})
    assert answer.headers["location"] == "/?status=passed&problem=relu"


@pytest.mark.parametrize(
    "settings",
    [{"run_timeout_s": "5"}, {"run_timeout_s": True}, {"max_launches": "20"}, {"timing": 1}, {"timing": "no"}],
)
def test_a_number_is_a_number(http, settings):
    assert (
        next(iter(settings)) in refused(post(http, submission(settings=settings)), 422, "invalid-request")["detail"]
    )


def test_one_key_leaves_connections_to_others(tmp_path):
    with served(f"sqlite:///{tmp_path / 'b.db'}", tmp_path, connections=8) as here, here.http() as http:
        greedy, other = (
            {"Authorization": f"Bearer {here.storage.keys.create(name)[1]}"} for name in ("greedy", "other")
        )
        path = post(http, Prefer="wait=0", **greedy).headers["location"]
        with contextlib.ExitStack() as streams:
            for _ in range(4):
                streams.enter_context(http.stream("GET", f"{path}/events", headers=greedy))
            refused(http.get("/evaluations", headers=greedy), 503, "busy")
            assert http.get("/evaluations", headers=other).status_code == 200
        deadline_s = time.monotonic() + 60
        while http.get("/evaluations", headers=greedy).status_code != 200:
            assert time.monotonic() < deadline_s, "places that are free again are not given out"
            time.sleep(0.05)


def test_callers_without_a_key_leave_connections_too(tmp_path):
    with served(f"sqlite:///{tmp_path / 'b.db'}", tmp_path, connections=8) as here, here.http() as http:
        path = post(http, Prefer="wait=0").headers["location"]
        with contextlib.ExitStack() as streams:
            for _ in range(4):
                streams.enter_context(http.stream("GET", f"{path}/events"))
            refused(http.get("/evaluations"), 503, "busy")
            assert http.get("/livez").status_code == 200
        deadline_s = time.monotonic() + 60
        while http.get("/evaluations").status_code != 200:
            assert time.monotonic() < deadline_s, "places that are free again are not given out"
            time.sleep(0.05)


def test_whose_key_is_revoked_waits_and_hears_no_longer(tmp_path, monkeypatch):
    monkeypatch.setattr(routes, "HEARTBEAT_S", 0.3)
    monkeypatch.setattr(callers, "_LOOKED_AT_S", 0.1)
    with served(f"sqlite:///{tmp_path / 'r.db'}", tmp_path) as here, here.http() as http:
        key, secret = here.storage.keys.create("someone")
        here.storage.keys.create("other")
        mine = {"Authorization": f"Bearer {secret}"}
        path = post(http, Prefer="wait=0", **mine).headers["location"]
        body = {"submissions": [submission(), submission(source=f"{ADD} ")]}
        with ThreadPoolExecutor(3) as pool:
            polled = pool.submit(http.get, path, headers={**mine, "Prefer": "wait=30"}, timeout=60)
            streamed = pool.submit(http.post, "/evaluate/batch", json=body, headers=mine, timeout=60)
            followed = pool.submit(http.get, f"{path}/events", headers=mine, timeout=60)
            time.sleep(1)
            assert not any(one.done() for one in (polled, streamed, followed))
            began_s = time.monotonic()
            assert here.storage.keys.revoke(key.id)
            refused(polled.result(), 401, "unauthorized")
            lines = [json.loads(line) for line in streamed.result().text.splitlines() if line]
            assert [one["index"] for one in lines] == [0, 1]
            assert {one["error"]["status"] for one in lines} == {401}
            assert "event: done" not in followed.result().text
            assert time.monotonic() - began_s < 10


def test_unknown_paths_methods_and_ids(http):
    refused(http.get("/nowhere"), 404, "not-found")
    assert "other methods: POST." in refused(http.put("/evaluate"), 405, "method-not-allowed")["detail"]
    for one in ("ev_0123456789012345678901", "ev_%00", "..%2f..", "x" * 3000):
        refused(http.get(f"/evaluations/{one}"), 404, "not-found")
    refused(http.get("/problems/relo"), 404, "not-found")


@pytest.mark.parametrize(
    ("method", "path", "more", "status", "words"),
    [
        ("GET", "/nowhere", {}, 404, "This service has nothing at this path"),
        ("GET", "/evaluations/a/b/c", {}, 404, "This service has nothing at this path"),
        ("DELETE", "/", {}, 405, "This path knows other methods"),
        ("POST", "/evaluate", {"data": {"source": "x"}}, 415, "The body is not JSON"),
        # Refused at the door, before any route.
        ("GET", "/", {"headers": {"Host": "evil.example"}}, 421, "http://localhost"),
        ("GET", "/nowhere", {"headers": {"Host": "evil.example"}}, 421, "http://localhost"),
    ],
)
def test_a_browser_gets_a_page_and_a_program_a_problem(http, method, path, more, status, words):
    def ask(accept):
        headers = {"Accept": accept, **more.get("headers", {})}
        return http.request(method, path, **{**more, "headers": headers})

    page = ask(BROWSER)
    assert page.status_code == status
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert words in page.text
    assert "default-src 'none'" in page.headers["content-security-policy"]
    for accept in ("*/*", "application/json", "application/json, text/html;q=0.9"):
        problem = ask(accept)
        assert problem.status_code == status
        assert problem.headers["content-type"] == "application/problem+json"
        for name in ("allow", "retry-after", "www-authenticate"):
            assert problem.headers.get(name) == page.headers.get(name)


def test_a_body_that_is_refused_at_the_door_is_refused_in_a_page_for_a_browser(tmp_path):
    with served(f"sqlite:///{tmp_path / 'a.db'}", tmp_path, body_bytes=2000) as here, here.http() as http:
        page = http.post("/evaluate", content=b"x" * 3000, headers={"Accept": BROWSER})
        assert (page.status_code, page.headers["content-type"]) == (413, "text/html; charset=utf-8")
        assert "Send less at one time." in page.text


def test_a_mistake_of_ours_is_a_page_too(here, http, monkeypatch):
    monkeypatch.setattr(here.storage.evaluations, "list", lambda *_, **__: 1 / 0)
    page = http.get("/", headers={"Accept": BROWSER})
    assert page.status_code == 500
    assert page.headers["x-request-id"] in page.text
    assert "ZeroDivision" not in page.text


def test_a_database_that_fails_is_a_503_that_names_nothing_of_ours(here, http, monkeypatch):
    def fail(*_, **__):
        raise StorageError("The disk of db.internal is full.")

    for name in ("get", "list", "depth"):
        monkeypatch.setattr(here.storage.evaluations, name, fail)
    monkeypatch.setattr(here.storage.submissions, "accept_all", fail)
    monkeypatch.setattr(here.storage.keys, "find", fail)
    monkeypatch.setattr(here.storage.workers, "fleet", fail)
    answer = post(http)
    refused(answer, 503, "storage")
    assert int(answer.headers["retry-after"]) >= 1
    assert "internal" not in answer.text
    assert http.get("/readyz").json() == unready("The database cannot be used.")
    assert "assay_store_up 0.0" in http.get("/metrics").text


def test_a_mistake_of_ours_is_a_500_in_plain_words(here, http, monkeypatch):
    monkeypatch.setattr(here.storage.evaluations, "get", lambda *_: 1 / 0)
    answer = http.get("/evaluations/ev_0123456789012345678901")
    refused(answer, 500, "internal")
    assert "ZeroDivision" not in answer.text
    logged = here.logged("unforeseen")[0]
    assert "ZeroDivisionError" in logged["exception"]
    assert logged["request_id"] == answer.headers["x-request-id"]


def test_bodies_are_bounded(tmp_path):
    bounds = {"body_bytes": 2000, "batch_bytes": 8000, "bodies_bytes": 9000}
    with served(f"sqlite:///{tmp_path / 'a.db'}", tmp_path, **bounds) as here, here.http() as http:
        refused(post(http, submission(source="x" * 3000)), 413, "too-large")
        chunks = (b"x" * 500 for _ in range(20))
        refused(
            http.post("/evaluate", content=chunks, headers={"Content-Type": "application/json"}), 413, "too-large"
        )
        batch = {"submissions": [submission(source="x" * 3000)]}
        assert http.post("/evaluate/batch", json=batch, headers={"Prefer": "wait=0"}).status_code == 200
        # What was refused holds no room.
        for _ in range(10):
            assert post(http, submission(source="x" * 1500), Prefer="wait=0").status_code == 202


# Around them


def test_request_ids_are_taken_where_they_are_sane_and_go_on_to_the_worker(here, http):
    answer = post(http, Prefer="wait=0", **{"X-Request-Id": "run-7/step:3"})
    assert answer.headers["x-request-id"] == "run-7/step:3"
    assert here.storage.leases.claim(["compile"], "w1", 30).request_id == "run-7/step:3"
    for odd in ("x" * 200, 'a"b', "{}"):
        made = http.get("/livez", headers={"X-Request-Id": odd}).headers["x-request-id"]
        assert made.startswith("req_")


def test_the_manual_loads_nothing_from_elsewhere(http):
    """A script of another host would run where the key is typed in and the pages are read."""
    page = http.get("/docs")
    loaded = re.findall(r"""(?:src|href)=["']([^"']+)""", page.text)
    assert len(loaded) >= 2
    for address in loaded:
        assert address.startswith("/docs/")
        assert http.get(address).status_code == 200
    assert "://" not in page.text
    policy = dict(one.strip().split(" ", 1) for one in page.headers["content-security-policy"].split(";"))
    assert policy["default-src"] == "'none'"
    inline = re.findall(r"<script>(.*?)</script>", page.text, re.DOTALL)
    hashes = [base64.b64encode(hashlib.sha256(one.encode()).digest()).decode() for one in inline]
    assert policy["script-src"].split() == ["'self'", *(f"'sha256-{one}'" for one in hashes)]
    assert "SwaggerUIBundle" in http.get("/docs/swagger-ui-bundle.js").text


def test_problems_are_what_the_grader_knows(http):
    listed = http.get("/problems").json()
    assert [one["id"] for one in listed] == list(problems())
    assert ProblemFace.model_validate(http.get("/problems/softmax").json()) == problems()["softmax"].face


def test_readiness_follows_the_fleet(here, http):
    assert http.get("/readyz").json() == unready("No worker is alive.")
    here.storage.workers.register(facts(queues=("compile",)))
    assert "runs kernels" in http.get("/readyz").json()["reason"]
    here.storage.workers.register(facts(id="w2", queues=("gpu.GPU-1",), backend="gpu"))
    no_simulator = "No worker that runs kernels on the simulator is alive."
    assert http.get("/readyz").json() == {
        "ready": True,
        "reason": None,
        "backends": {"gpu": None, "sim": no_simulator},
    }
    here.storage.workers.seen("w1", draining=True)
    assert "compiles" in http.get("/readyz").json()["reason"]


def test_accepted_evaluations_are_counted(here, http):
    post(http, Prefer="wait=0")
    assert tallied(here.storage, "assay_evaluations_accepted_total", answer="created") == 1


def test_the_openapi_document_is_whole(http):
    found = http.get("/openapi.json").json()
    for path, methods in found["paths"].items():
        for method, operation in methods.items():
            assert operation["description"], (method, path)
            assert operation["tags"]
            for status, answer in operation["responses"].items():
                assert answer["description"] != "Successful Response" or status == "200"
                kinds = answer.get("content", {})
                assert int(status) in (200, 202, 204, 304) or kinds.keys() & {
                    "application/problem+json",
                    "application/json",
                }
    names = set(found["components"]["schemas"])
    assert {"Submission", "Evaluation", "Verdict", "Problem", "BatchLine", "ProblemFace"} <= names
    references = {one.split('"')[0] for one in json.dumps(found).split('"$ref": "#/components/schemas/')[1:]}
    assert references <= names


def test_examples_are_what_they_claim(http):
    post_one = http.get("/openapi.json").json()["paths"]["/evaluate"]["post"]
    for example in post_one["requestBody"]["content"]["application/json"]["examples"].values():
        assert post(http, example["value"], Prefer="wait=0").status_code == 202
    for status in ("200", "202"):
        for example in post_one["responses"][status]["content"]["application/json"]["examples"].values():
            assert Evaluation.model_validate(example["value"]).id.startswith("ev_")


@pytest.mark.parametrize("path", ["/evaluations", "/"])
def test_lists_that_wait_for_their_turn_are_in_nobody_elses_way(here, http, path):
    accept = {"Accept": "text/html" if path == "/" else "application/json"}
    many = 80
    with here.http() as lists:
        threads = [threading.Thread(target=lambda: lists.get(path, headers=accept, timeout=30)) for _ in range(many)]
        # As while a page of a hundred large evaluations is read.
        with here.storage.evaluations._listing:
            for one in threads:
                one.start()
            time.sleep(0.5)
            began_s = time.monotonic()
            assert http.get("/readyz", timeout=10).status_code in (200, 503)
            took_s = time.monotonic() - began_s
        for one in threads:
            one.join()
    # A page waits for two seconds, in one of forty threads that it shares with this.
    assert took_s < (1 if path == "/evaluations" else 8)
