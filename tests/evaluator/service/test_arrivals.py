"""Whose new connection is served next."""

import asyncio
import contextlib
import socket

import pytest

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


async def asked_before(kind, sent, wanted, room=10_000):
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
            server = Arrivals(listening, lambda: Recording(asked), lambda: room)
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
