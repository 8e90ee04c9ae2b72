"""The server's connections: slow ones, many, and what is no HTTP, over real sockets."""

import contextlib
import select
import socket
import threading
import time

import httpx
import pytest
from api_service import served, submission

from evaluator.service import server


@pytest.fixture
def impatient(tmp_path, monkeypatch):
    monkeypatch.setattr(server, "HEADERS_S", 1.0)
    monkeypatch.setattr(server, "_LATER_S", 1.0)
    monkeypatch.setattr(server, "_UNREAD_S", 2.0)
    with served(f"sqlite:///{tmp_path / 'a.db'}", tmp_path, receive_s=1, connections=20) as here:
        yield here


def dial(here, address="127.0.0.1"):
    """A connection from an address of this machine; only 127.0.0.1 is believed to be a proxy."""
    host, port = here.url.removeprefix("http://").split(":")
    return socket.create_connection((host, int(port)), timeout=10, source_address=(address, 0))


HEAD = b"POST /evaluate HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"


def test_headers_that_never_end_are_not_waited_for(impatient):
    with dial(impatient) as slow:
        slow.sendall(HEAD)
        started_s = time.monotonic()

        def drip():
            with contextlib.suppress(OSError):
                while True:
                    slow.sendall(b"X-A: b\r\n")
                    time.sleep(0.2)

        threading.Thread(target=drip, daemon=True).start()
        with contextlib.suppress(ConnectionError):
            assert slow.recv(1000) == b""
        assert time.monotonic() - started_s < 6


def test_a_body_that_never_ends_is_refused_and_its_connection_ended(impatient):
    with dial(impatient) as slow:
        slow.sendall(HEAD + b"Content-Length: 1000\r\n\r\n{")
        assert slow.recv(4000).startswith(b"HTTP/1.1 408")
        started_s = time.monotonic()
        with contextlib.suppress(ConnectionError):
            while slow.recv(4000):
                pass
        assert time.monotonic() - started_s < 6


def test_an_answer_that_nobody_reads_is_not_kept_for_ever(impatient):
    large = submission(source="\x01" * (1 << 20))  # each is six characters of JSON
    with impatient.http() as http:
        path = http.post("/evaluate", json=large, headers={"Prefer": "wait=0"}, timeout=60).headers["location"]
    with socket.socket() as slow:
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)
        slow.settimeout(10)
        slow.connect(("127.0.0.1", int(impatient.url.rpartition(":")[2])))
        slow.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        time.sleep(5)
        read_bytes = 0
        with contextlib.suppress(ConnectionError):
            while part := slow.recv(1 << 20):
                read_bytes += len(part)
        assert read_bytes < 6 << 20


def test_connections_are_bounded_and_room_comes_back(impatient):
    with contextlib.ExitStack() as many:
        for _ in range(60):
            many.enter_context(dial(impatient)).sendall(HEAD)
        # Whoever comes now takes the place of the one who has been silent for longest.
        assert httpx.get(f"{impatient.url}/livez", timeout=10).status_code == 200
    with contextlib.ExitStack() as many:
        for _ in range(20):
            many.enter_context(dial(impatient)).sendall(HEAD + b"Content-Length: 9\r\n\r\n{")
        time.sleep(0.3)
        with pytest.raises(httpx.TransportError):
            httpx.get(f"{impatient.url}/livez", timeout=3)
    deadline_s = time.monotonic() + 60
    while True:
        with contextlib.suppress(httpx.TransportError):
            assert httpx.get(f"{impatient.url}/livez", timeout=3).status_code == 200
            break
        assert time.monotonic() < deadline_s


def is_open(connection):
    """Whether the server has left it open, where it owes no answer."""
    if not select.select([connection], [], [], 0)[0]:
        return True
    with contextlib.suppress(ConnectionError):
        assert connection.recv(1) == b""
    return False


def test_half_sent_requests_of_one_address_push_out_its_own_alone(tmp_path):
    bounds = {"connections": 200, "address_connections": 10}
    with served(f"sqlite:///{tmp_path / 'a.db'}", tmp_path, **bounds) as here, contextlib.ExitStack() as held:
        slow = held.enter_context(dial(here, "127.0.0.3"))
        slow.sendall(HEAD)
        rude = [held.enter_context(dial(here, "127.0.0.2")) for _ in range(60)]
        for one in rude:
            with contextlib.suppress(ConnectionError):
                one.sendall(HEAD)
        deadline_s = time.monotonic() + 60
        while sum(map(is_open, rude)) > 10 and time.monotonic() < deadline_s:
            time.sleep(0.05)
        assert [is_open(one) for one in rude] == [False] * 50 + [True] * 10
        slow.sendall(b"Content-Length: 2\r\n\r\n{}")
        assert slow.recv(4000).startswith(b"HTTP/1.1 422")
        proxied = [held.enter_context(dial(here)) for _ in range(30)]
        rude[-1].sendall(b"Content-Length: 2\r\n\r\n{}")
        assert rude[-1].recv(4000).startswith(b"HTTP/1.1 422")
        assert all(map(is_open, proxied))


def asked(here, address, path="/livez", **headers):
    """The status of a request that comes from an address."""
    sent = {"Host": "localhost", "Connection": "close", **headers}
    with dial(here, address) as one:
        one.sendall("\r\n".join([f"GET {path} HTTP/1.1", *map(": ".join, sent.items()), "", ""]).encode())
        return int(one.recv(4000).split()[1])


def test_open_requests_without_a_key_are_bounded_by_address_also_behind_a_proxy(tmp_path):
    bounds = {"connections": 100, "address_connections": 4, "require_keys": True}
    with served(f"sqlite:///{tmp_path / 'a.db'}", tmp_path, **bounds) as here, contextlib.ExitStack() as held:
        key = {"Authorization": f"Bearer {here.storage.keys.create('someone')[1]}"}
        head = b"POST /sign-in HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\nExpect: 100-continue\r\n"
        for address, named in (("127.0.0.2", b""), ("127.0.0.1", b"X-Forwarded-For: 2001:db8::%d\r\n")):
            for number in range(4):
                one = held.enter_context(dial(here, address))
                one.sendall(head + (named % number if named else b"") + b"\r\n")
                assert one.recv(100).startswith(b"HTTP/1.1 100"), "its body is waited for"
        assert asked(here, "127.0.0.2") == 503
        assert asked(here, "127.0.0.2", **{"X-Forwarded-For": "9.9.9.9"}) == 503, "nobody vouches for that name"
        assert asked(here, "127.0.0.2", "/evaluations", **key) == 200
        assert asked(here, "127.0.0.2", "/evaluations", Authorization="Bearer assay_x") == 401
        assert asked(here, "127.0.0.3") == 200
        for named, status in (
            ("2001:db8::ffff", 503),
            ("2001:db8:0:1::1", 503),
            ("2001:db8:0:100::1", 200),
            ("::ffff:127.0.0.2", 503),
        ):
            assert asked(here, "127.0.0.1", **{"X-Forwarded-For": named}) == status, named
        held.close()
        deadline_s = time.monotonic() + 60
        while asked(here, "127.0.0.2") != 200:
            assert time.monotonic() < deadline_s, "places that are free again are not given out"
            time.sleep(0.05)


@pytest.mark.parametrize(
    "raw",
    [
        b"GARBAGE\r\n\r\n",
        b"GET /livez HTTP/1.1\r\n\r\n",
        b"GET /livez HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
        HEAD + b"Content-Length: -1\r\n\r\n",
        HEAD + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\n",
        HEAD + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n",
        HEAD + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"GET /livez HTTP/1.1\r\nHost: localhost\r\nX: " + b"a" * 1_000_000 + b"\r\n\r\n",
    ],
)
def test_what_is_no_http_is_refused(impatient, raw):
    with dial(impatient) as odd:
        with contextlib.suppress(ConnectionError):
            odd.sendall(raw)
        answer = odd.recv(4000)
        assert answer.startswith(b"HTTP/1.1 4")
        assert b"application/problem+json" in answer
    assert httpx.get(f"{impatient.url}/livez", timeout=60).status_code == 200


@pytest.mark.parametrize(
    ("header", "status"),
    [
        (f"Prefer: {'x' * 9000}", 400),
        (f"X-Other: {'x' * 50_000}", 200),
        (f"Cookie: a={'x' * 50_000}; b=c", 200),
    ],
)
def test_headers_are_bounded_where_they_are_kept(impatient, header, status):
    with dial(impatient) as caller:
        caller.sendall(f"GET /livez HTTP/1.1\r\nHost: localhost\r\n{header}\r\n\r\n".encode())
        assert caller.recv(4000).startswith(f"HTTP/1.1 {status} ".encode())


def test_the_cookie_of_a_key_is_found_among_others(impatient):
    _, key = impatient.storage.keys.create("alice")
    with dial(impatient) as caller:
        cookies = f"a={'x' * 9000}; assay_key={key}; b={'x' * 9000}"
        caller.sendall(
            f"GET / HTTP/1.1\r\nHost: localhost\r\nAccept: text/html\r\nCookie: {cookies}\r\n\r\n".encode()
        )
        assert caller.recv(4000).startswith(b"HTTP/1.1 200 ")


def test_two_lengths_of_one_body_smuggle_no_second_request(impatient):
    smuggled = b"GET /version HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with dial(impatient) as odd:
        odd.sendall(HEAD + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + smuggled)
        answers = b""
        with contextlib.suppress(ConnectionError):
            while part := odd.recv(4000):
                answers += part
    assert answers.startswith(b"HTTP/1.1 400")
    assert answers.count(b"HTTP/1.1") == 1


# Bodies, and whose they are


def half_sent(here, stack, size_bytes, path="/evaluate", key=""):
    """A request whose body lacks its last byte."""
    head = HEAD.replace(b"/evaluate", path.encode()) + (f"Authorization: Bearer {key}\r\n".encode() if key else b"")
    one = stack.enter_context(dial(here))
    one.sendall(head + f"Content-Length: {size_bytes}\r\n\r\n".encode())
    with contextlib.suppress(ConnectionError):
        one.sendall(b" " * (size_bytes - 1))
    return one


@pytest.mark.parametrize("key", ["", "assay_" + "a" * 43])
@pytest.mark.parametrize("path", ["/evaluate", "/evaluate/batch"])
def test_who_has_no_key_is_answered_before_his_body(tmp_path, path, key):
    with (
        served(f"sqlite:///{tmp_path / 'a.db'}", tmp_path, require_keys=True) as here,
        contextlib.ExitStack() as held,
    ):
        asking = half_sent(here, held, 10_000, path, key)
        assert asking.recv(4000).startswith(b"HTTP/1.1 401")


@pytest.mark.parametrize("length", [b"Content-Length: 8000000\r\n", b"Transfer-Encoding: chunked\r\n"])
def test_who_closes_behind_him_hears_why_his_body_was_refused(tmp_path, length):
    """As urllib and proxies ask, with the whole body sent before anything is read."""
    part = b"7a1200\r\n" * (b"chunked" in length) + b"x" * 8_000_000
    with served(f"sqlite:///{tmp_path / 'a.db'}", tmp_path, body_bytes=2000) as here:
        for _ in range(5):
            with dial(here) as one:
                one.sendall(HEAD + length + b"Connection: close\r\n\r\n")
                one.sendall(part)
                assert one.recv(4000).startswith(b"HTTP/1.1 413")
        with dial(here) as slow:  # and who goes on for ever is left
            slow.sendall(HEAD + length + b"Connection: close\r\n\r\n" + part[:-1000])
            started_s = time.monotonic()
            with contextlib.suppress(ConnectionError):
                while time.monotonic() - started_s < 10:
                    slow.sendall(b"x")
                    time.sleep(0.05)
            assert time.monotonic() - started_s < 6


def test_slow_bodies_of_one_key_leave_room_for_anothers(tmp_path):
    bounds = {"body_bytes": 50_000, "batch_bytes": 50_000, "bodies_bytes": 200_000, "require_keys": True}
    with served(f"sqlite:///{tmp_path / 'a.db'}", tmp_path, **bounds) as here, contextlib.ExitStack() as held:
        _, greedy = here.storage.keys.create("greedy")
        _, other = here.storage.keys.create("other")
        slow = [half_sent(here, held, 49_000, key=greedy) for _ in range(6)]
        answered, deadline_s = [], time.monotonic() + 20
        while len(answered) < 4 and time.monotonic() < deadline_s:
            answered = select.select(slow, [], [], 0.1)[0]
        time.sleep(0.2)  # for an answer too many
        answered = select.select(slow, [], [], 0)[0]
        assert [one.recv(4000)[:12] for one in answered] == [b"HTTP/1.1 503"] * 4
        large = submission(source="x" * 40_000)
        with here.http() as http:
            sent = {
                name: {"Authorization": f"Bearer {key}", "Prefer": "wait=0"}
                for name, key in (("greedy", greedy), ("other", other))
            }
            assert http.post("/evaluate", json=large, headers=sent["other"]).status_code == 202
            assert http.post("/evaluate", json=large, headers=sent["greedy"]).status_code == 503


def test_small_answers_are_not_held_back(impatient):
    """Headers and body are two packets: with Nagle's algorithm each answer would take 40 ms."""
    with impatient.http() as http:
        took_s = []
        for _ in range(30):
            started_s = time.perf_counter()
            assert http.get("/livez").status_code == 200
            took_s.append(time.perf_counter() - started_s)
    assert min(took_s) < 0.03
