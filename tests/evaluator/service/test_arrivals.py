"""Whose new connection is served next."""

import asyncio
import contextlib
import os
import resource
import socket
import time

import pytest
from structlog.testing import capture_logs

from evaluator.service.api.callers import forwarded_host, sender_of, site_of
from evaluator.service.arrivals import Arrivals

MANY = 600
BURST = ("127.0.0.1", b"GET /evaluations HTTP/1.1\r\n\r\n")


class Recording(asyncio.Protocol):
    """Notes what it is asked, and by whom."""

    def __init__(self, asked):
        self._asked = asked

    def connection_made(self, transport):
        self._transport = transport

    def data_received(self, data):
        self._asked.append((self._transport.get_extra_info("peername")[0], data.split()[1]))
        self._transport.close()


async def asked_before(kind, sent, wanted, room=10_000, proxies=()):
    """How many were served before `wanted`, when all had come before the loop could look."""
    asked = []
    with contextlib.ExitStack() as open_now:
        listening = open_now.enter_context(socket.create_server(("127.0.0.1", 0), backlog=MANY + 10))
        listening.setblocking(False)
        for address, request in sent:
            one = open_now.enter_context(socket.socket())
            one.bind((address, 0))
            one.connect(listening.getsockname())
            one.sendall(request)
        if kind == "asyncio":
            server = await asyncio.get_running_loop().create_server(lambda: Recording(asked), sock=listening)
        else:
            server = Arrivals(listening, lambda: Recording(asked), lambda: room, lambda host: host in proxies)
            server.begin()
        async with asyncio.timeout(20):
            while len(asked) < len(sent):
                await asyncio.sleep(0)
        server.close()
    return asked.index(wanted)


@pytest.mark.parametrize(
    ("address", "request_", "path"),
    [
        ("127.0.0.1", b"GET /livez HTTP/1.1\r\n\r\n", b"/livez"),
        ("127.0.0.2", b"GET /problems HTTP/1.1\r\n\r\n", b"/problems"),
    ],
    ids=["a probe", "another address"],
)
def test_a_burst_of_one_address_keeps_nobody_waiting(address, request_, path):
    sent = [BURST] * MANY + [(address, request_)]
    assert asyncio.run(asked_before("arrivals", sent, (address, path))) < 100
    assert asyncio.run(asked_before("asyncio", sent, (address, path))) > MANY - 50


def through_proxy(number, caller):
    """A request that a proxy at 127.0.0.9 brings of this caller."""
    return "127.0.0.9", b"GET /problems/%d HTTP/1.1\r\nX-Forwarded-For: 10.0.0.1, %s\r\n\r\n" % (number, caller)


def test_callers_behind_a_proxy_take_turns_with_each_other():
    burst = [through_proxy(number, b"198.51.100.1") for number in range(MANY)]
    sent = [*burst, through_proxy(MANY, b"198.51.100.2")]
    wanted = "127.0.0.9", b"/problems/%d" % MANY
    assert asyncio.run(asked_before("arrivals", sent, wanted, proxies={"127.0.0.9"})) < 100
    assert asyncio.run(asked_before("arrivals", sent, wanted)) > MANY - 50  # who is no proxy names nobody


def test_a_proxy_is_many_callers_and_keeps_no_other_address_waiting():
    burst, proxied = [BURST] * 300, [through_proxy(number, b"198.51.100.%d" % number) for number in range(200)]
    others = [(f"127.0.1.{number}", BURST[1]) for number in range(1, 100)]
    last = "127.0.0.9", b"/problems/199"
    assert asyncio.run(asked_before("arrivals", [*burst, *others, *proxied], last, proxies={"127.0.0.9"})) < 400
    assert asyncio.run(asked_before("arrivals", [*burst, *others, *proxied], last)) > 450
    wanted = "127.0.1.9", BURST[1].split()[1]
    assert asyncio.run(asked_before("arrivals", [*proxied, *others], wanted, proxies={"127.0.0.9"})) < 150


@pytest.mark.parametrize(
    ("header", "host"),
    [
        (b"198.51.100.1", "198.51.100.1"),
        (b"made.up, 198.51.100.1, 127.0.0.9", "198.51.100.1"),
        (b"127.0.0.9", "127.0.0.9"),
        (b" , ", ""),
    ],
)
def test_a_caller_is_the_last_who_is_no_trusted_proxy(header, host):
    assert forwarded_host(header, lambda one: one == "127.0.0.9") == host


def test_addresses_of_one_customer_and_of_one_site_are_one():
    assert sender_of("2001:db8:1:100::1") == sender_of("2001:db8:1:1ff:2::3")
    assert sender_of("2001:db8:1:100::1") != sender_of("2001:db8:1:200::1")
    assert site_of("2001:db8:1:100::1") == site_of("2001:db8:1:200::1") != site_of("2001:db8:2::1")
    assert site_of("::ffff:192.0.2.1") == sender_of("::ffff:192.0.2.1") == "192.0.2.1"
    assert sender_of("fe80::1%eth0") == sender_of("fe80::2")
    assert sender_of("a socket") == site_of("a socket") == "a socket"


async def taken_without_descriptors(pause_s):
    """What is logged, and whether a connection is served once there are descriptors again."""
    asked = []
    with contextlib.ExitStack() as open_now, capture_logs() as logged:
        listening = open_now.enter_context(socket.create_server(("127.0.0.1", 0)))
        listening.setblocking(False)
        one = open_now.enter_context(socket.create_connection(listening.getsockname(), timeout=5))
        one.sendall(BURST[1])
        server = Arrivals(listening, lambda: Recording(asked), lambda: 100)
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(map(int, os.listdir("/proc/self/fd"))), hard))
        # The lowest free numbers are given out first: use up those below the limit.
        with contextlib.suppress(OSError):
            while True:
                open_now.enter_context(open("/dev/null"))
        server.begin()
        began_s = time.process_time()
        await asyncio.sleep(3 * pause_s)
        busy_s = time.process_time() - began_s
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        async with asyncio.timeout(20):
            while not asked:
                await asyncio.sleep(0.01)
        server.close()
    return logged, busy_s


def test_no_descriptor_left_is_said_once_and_waited_for():
    logged, busy_s = asyncio.run(taken_without_descriptors(1.0))
    (said,) = [one for one in logged if one["event"] == "no connection can be taken"]
    assert "Too many open files" in said["why"]
    assert busy_s < 1.0


def test_what_is_about_to_be_served_is_ended_with_the_server():
    class Slow(asyncio.Protocol):
        pass

    async def end():
        with socket.create_server(("127.0.0.1", 0)) as listening:
            listening.setblocking(False)
            arrivals = Arrivals(listening, Slow, lambda: 100)
            with socket.create_connection(listening.getsockname(), timeout=5) as one:
                arrivals._take()
                arrivals._serve_some()
                assert arrivals._serving
                arrivals.close()
                await asyncio.sleep(0.05)
                assert not arrivals._serving
                return await asyncio.to_thread(one.recv, 1)

    assert asyncio.run(end()) == b""


def test_what_has_no_room_is_left_to_the_kernel_and_served_all_the_same():
    sent = [BURST] * MANY + [("127.0.0.2", BURST[1])]
    assert asyncio.run(asked_before("arrivals", sent, ("127.0.0.2", b"/evaluations"), room=64)) > MANY - 100


def test_what_waits_is_ended_with_the_server():
    async def end():
        with socket.create_server(("127.0.0.1", 0)) as listening:
            listening.setblocking(False)
            arrivals = Arrivals(listening, lambda: Recording([]), lambda: 100)
            with socket.create_connection(listening.getsockname(), timeout=5) as one:
                arrivals._take()
                arrivals.close()
                return await asyncio.to_thread(one.recv, 1)

    assert asyncio.run(end()) == b""
