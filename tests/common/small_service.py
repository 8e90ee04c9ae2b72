"""A small service that keeps the contract, and a road to it that does not: what the client is tested against.

The service holds evaluations in memory and "grades" by waiting. The road is a TCP proxy: it cuts connections in
either direction, delays them, and answers in the service's place.
"""

import asyncio
import contextlib
import json
import re
import socket
import threading
from collections import Counter
from dataclasses import dataclass, field

import uvicorn

from common.contract import Evaluation, Submission, Verdict


def verdict_of(source: str, status: str = "unsupported") -> Verdict:
    """A verdict that names its source, so that a verdict in the wrong place is seen."""
    return Verdict(
        status=status,
        phase="launch",
        message=f"verdict of {source}",
        hint=None,
        backend="sim",
        problem="vector_add",
        **dict.fromkeys(("compile", "correctness", "timing", "profile", "reward", "receipt")),
    )


@dataclass
class SmallService:
    """An ASGI application. Its fields say how it behaves, and what it has seen."""

    grading_s: float = 0.0
    places: int = 10_000
    """How many evaluations may be under way before it says 429."""
    key: str | None = None
    down: bool = False
    unready: str | None = None
    """Why it says that it is not ready."""
    lacks: dict[str, str | None] | None = None
    """What it says of each backend at /readyz, beside that."""
    no_gpu: bool = False
    """Whether it refuses what asks for a GPU, for now."""
    fault_sources: frozenset[str] = frozenset()
    """Sources whose grading fails inside the evaluator."""
    forgets: int = 0
    """How many accepted evaluations it loses, as after a disk was lost."""
    body: bytes | None = None
    """Sent instead of every evaluation."""
    ids: dict[str, str] = field(default_factory=dict)
    """Evaluation by Idempotency-Key."""
    submissions: dict[str, Submission] = field(default_factory=dict)
    due: dict[str, float] = field(default_factory=dict)
    dropped: list[str] = field(default_factory=list)
    asked: Counter[str] = field(default_factory=Counter)
    """Requests by method and what came of it: "POST 202", "POST 429"…"""
    queries: list[str] = field(default_factory=list)
    max_under_way: int = 0

    async def __call__(self, scope, receive, send):
        if scope["type"] != "http":
            return
        headers = {name.decode(): value.decode() for name, value in scope["headers"]}
        content = b""
        while (message := await receive())["type"] == "http.request":
            content += message["body"]
            if not message.get("more_body"):
                break
        else:
            return
        self.queries.append(scope["query_string"].decode())
        status, extra, answer = await self.answer(scope["method"], scope["path"], headers, content)
        self.asked[f"{scope['method']} {status}"] += 1
        fields = {"content-type": "application/json", "content-length": str(len(answer)), **extra}
        sent = [(name.encode(), value.encode()) for name, value in fields.items()]
        await send({"type": "http.response.start", "status": status, "headers": sent})
        await send({"type": "http.response.body", "body": answer})

    async def answer(self, method, path, headers, content):
        if self.key and headers.get("authorization") != f"Bearer {self.key}":
            problem = {"title": "No valid key", "detail": "This service needs a key.", "remedy": "Send one."}
            return 401, {}, json.dumps(problem).encode()
        if self.down:
            return 503, {}, b"<h1>Out of order</h1>"
        if path == "/readyz" and self.unready:
            said = {"ready": False, "reason": self.unready, **({"backends": self.lacks} if self.lacks else {})}
            return 503, {}, json.dumps(said).encode()
        if path == "/readyz" and self.lacks:
            return 200, {}, json.dumps({"ready": True, "reason": None, "backends": self.lacks}).encode()
        if path == "/problems":
            return 200, {}, b"[]"
        now = asyncio.get_running_loop().time()
        if method == "POST":
            submission = Submission.model_validate_json(content)
            key = headers["idempotency-key"]
            if self.no_gpu and submission.backend == "gpu":
                refused = {"type": "urn:assay:problem:no-worker", "title": "No worker can serve this now"}
                return 503, {"retry-after": "30"}, json.dumps(refused).encode()
            if key not in self.ids:
                if self.under_way(now) >= self.places:
                    return 429, {"retry-after": "1"}, b'{"title": "Too many at once", "remedy": "Send fewer."}'
                self.ids[key] = f"ev_{len(self.ids)}_{key[:6]}"
                if self.forgets:
                    self.forgets -= 1
                    lost = Evaluation(id=self.ids.pop(key), state="queued", submission=submission, created_at="now")
                    return 202, {}, lost.model_dump_json().encode()
                self.submissions[self.ids[key]] = submission
                self.due[self.ids[key]] = now + self.grading_s
                self.max_under_way = max(self.max_under_way, self.under_way(now))
            evaluation_id = self.ids[key]
        else:
            evaluation_id = path.removeprefix("/evaluations/")
            if evaluation_id not in self.submissions:
                return 404, {}, b'{"title": "No such evaluation"}'
        if method == "DELETE":
            self.dropped.append(evaluation_id)
            self.due[evaluation_id] = now
        wait = re.search(r"wait=(\d+)", headers.get("prefer", ""))
        left_s = self.due[evaluation_id] - now
        if wait and left_s > 0:
            await asyncio.sleep(min(float(wait[1]), left_s))
        done = asyncio.get_running_loop().time() >= self.due[evaluation_id]
        return 200 if done or method != "POST" else 202, {}, self.body or self.shown(evaluation_id, done)

    def under_way(self, now):
        return sum(due > now for due in self.due.values())

    def shown(self, evaluation_id, done):
        submission = self.submissions[evaluation_id]
        status = "unsupported"
        if evaluation_id in self.dropped:
            status = "cancelled"
        elif submission.source in self.fault_sources:
            status = "internal_error"
        evaluation = Evaluation(
            id=evaluation_id,
            state="done" if done else "running",
            submission=submission,
            created_at="2026-01-01T00:00:00Z",
            verdict=verdict_of(submission.source, status) if done else None,
        )
        return evaluation.model_dump_json().encode()

    @contextlib.contextmanager
    def served(self):
        """The port on which it listens, on loopback."""
        listening = socket.create_server(("127.0.0.1", 0))
        server = uvicorn.Server(
            uvicorn.Config(self, log_level="critical", lifespan="off", timeout_graceful_shutdown=1)
        )
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        try:
            yield listening.getsockname()[1]
        finally:
            server.should_exit = True
            thread.join()


ANSWERS = {
    "429": b"HTTP/1.1 429 Too Many Requests\r\nRetry-After: 0\r\nContent-Length: 0\r\n\r\n",
    "503": b"HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nContent-Length: 0\r\n\r\n",
    "502": b"HTTP/1.1 502 Bad Gateway\r\nContent-Type: text/html\r\nContent-Length: 12\r\n\r\n<html>oops\r\n",
    "garbage": b"\x00\xff\x16\x03 this is no HTTP\r\n\r\n",
    "web page": b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 15\r\n\r\n<h1>Log in</h1>",
    "half JSON": b'HTTP/1.1 200 OK\r\nContent-Length: 24\r\n\r\n{"id": "ev_x", "state": ',
    "short body": b'HTTP/1.1 200 OK\r\nContent-Length: 900\r\n\r\n{"id": ',
}
"""What the road says in the service's place, by name."""
CUTS = ("at once", "after the request", "in the request", "in the answer", "slow")
"""Where the road cuts a connection, or that it is slow. "impatient": it cuts whatever takes longer than 0.3 s."""


class Road:
    """A TCP proxy. Each new connection meets the next of `troubles`, by name; those after the last pass unharmed."""

    def __init__(self, port, troubles=()):
        self.port, self.troubles, self.met = port, list(troubles), []

    async def carry(self, reader, writer):
        trouble = self.troubles.pop(0) if self.troubles else None
        self.met.append(trouble)
        try:
            if trouble == "at once":
                return
            if trouble in ANSWERS:
                await self.read_request(reader)
                writer.write(ANSWERS[trouble])
                await writer.drain()
                return
            there, back = await asyncio.open_connection("127.0.0.1", self.port)
            try:
                if trouble == "in the request":
                    back.write((await reader.read(64))[:64])
                    return
                if trouble == "after the request":
                    back.write(await self.read_request(reader))
                    await there.read(1)  # the service has worked on it; its answer is lost
                    return
                if trouble == "in the answer":
                    back.write(await self.read_request(reader))
                    writer.write((await there.read(1 << 16))[:90])
                    await writer.drain()
                    return
                await asyncio.wait(
                    [
                        asyncio.create_task(self.pump(reader, back, trouble)),
                        asyncio.create_task(self.pump(there, writer, trouble)),
                    ],
                    return_when=asyncio.FIRST_COMPLETED,
                    timeout=0.3 if trouble == "impatient" else None,
                )
            finally:
                back.close()
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    @staticmethod
    async def read_request(reader):
        head = await reader.readuntil(b"\r\n\r\n")
        length = re.search(rb"content-length: (\d+)", head, re.IGNORECASE)
        return head + await reader.readexactly(int(length[1]) if length else 0)

    @staticmethod
    async def pump(reader, writer, trouble):
        with contextlib.suppress(OSError):
            while part := await reader.read(1 << 16):
                for piece in (part[:50], part[50:]) if trouble == "slow" else (part,):
                    if trouble == "slow":
                        await asyncio.sleep(0.02)
                    writer.write(piece)
                    await writer.drain()

    @contextlib.contextmanager
    def open(self):
        """The address at which it begins."""
        loop = asyncio.new_event_loop()
        server = loop.run_until_complete(asyncio.start_server(self.carry, "127.0.0.1", 0))
        thread = threading.Thread(target=loop.run_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        finally:

            async def end():
                server.close()
                tasks = asyncio.all_tasks() - {asyncio.current_task()}
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)

            asyncio.run_coroutine_threadsafe(end(), loop).result(5)
            loop.call_soon_threadsafe(loop.stop)
            thread.join()
            loop.close()
