"""The process of one file: it reads requests and answers them, until there are no more.

A request is the lengths of a JSON text and of what follows it (8 bytes each, little-endian), that text, and the bytes
of the tensors that its `tensors` list by name, dtype and shape, in that order; an answer has the first length alone.
"""

import json
import math
import struct
from collections.abc import Mapping
from functools import cached_property
from typing import IO, Any, Final

import torch

from evaluator.foreign.inside.by_shapes import ByShapes, known_by_shapes
from evaluator.foreign.inside.numbers_in_text import Fixed
from evaluator.foreign.inside.refusals import NoOneAnswerError, RefusedError, TooLargeError
from evaluator.foreign.inside.server import DTYPES, FORMS, SEED, ReferenceServer, call_room

_BY_NAME: Final = {name: dtype for dtype, name in DTYPES.items() if dtype is not torch.bool}
_MOST_KEPT: Final = 8
"""Sizes of which module and inputs are kept: what one evaluation has."""


def _encoded(named: Mapping[str, torch.Tensor]) -> tuple[list[dict[str, Any]], list[bytes]]:
    listed, contents = [], []
    for name, tensor in named.items():
        listed.append({"name": name, "dtype": DTYPES[tensor.dtype], "shape": list(tensor.shape)})
        # numpy has no bfloat16: the bytes are taken as they are.
        contents.append(tensor.detach().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
    return listed, contents


def _reply(servers: "_Servers", request: Mapping[str, Any], given: Mapping[str, torch.Tensor]) -> Any:
    """The JSON value and the tensors of an answer."""
    asked, sizes = request["ask"], request["sizes"]
    if asked == "describe":
        told = servers.described(sizes, request["most_work"])
        taken = {one["name"] for one in (*told["inputs"], *told["outputs"])}
        return {
            **told,
            "reducible": {name: size for name, size in servers.constants.items() if name not in taken},
            "fixed": [name for name in servers.fixed if name not in taken],
        }, {}
    server = servers.at(sizes)
    if asked == "draw":
        drawn = server.drawn(request["seed"])
        return {}, {name: drawn[name] for name in request["names"]}
    if asked == "compute":
        found = server.computed(given, request["how"])
        return {}, {f"value_{at}": one for at, one in enumerate(found)}
    if asked == "value":
        found = server.valued(given)
        told = {"stays_finite": server.stays_finite(given, found)} if request["moved"] else {}
        return told, {f"value_{at}": one for at, one in enumerate(found)}
    exact, scales = server.answered(given)
    named = {f"value_{at}": one for at, one in enumerate(exact)}
    return {}, {**named, **{f"scale_{at}": one for at, one in enumerate(scales)}}


class _Servers:
    """Of one file, for the sizes that were asked for last."""

    def __init__(self, text: str, most_bytes: int, most_output_bytes: int, form: str) -> None:
        self._text, self._most_bytes, self._most_output_bytes = text, most_bytes, most_output_bytes
        self._form = form
        self._kept: dict[tuple[tuple[str, int], ...], ReferenceServer] = {}
        self._told: bool | None = None

    @cached_property
    def _places(self) -> dict[str, Any]:
        return dict(FORMS[self._form].parsed(self._text)[1])

    @property
    def constants(self) -> dict[str, int]:
        """Those of the file, with its own numbers."""
        return {name: place.value for name, place in self._places.items()}

    @property
    def fixed(self) -> list[str]:
        """Those of them on which a kernel may rely."""
        return [name for name, place in self._places.items() if isinstance(place, Fixed)]

    def described(self, sizes: Mapping[str, int], most_work: int) -> dict[str, Any]:
        """Raises RefusedError."""
        found = self._by_shapes(sizes, most_work)
        try:
            return self.at(sizes).describe(found.operations, most_work)
        except TooLargeError as too_large:
            # It may fail at these sizes however large it may be: not so where shapes alone say nothing of this file.
            if sizes and found.failed and self._known_by_shapes(most_work):
                raise RefusedError(found.failed) from too_large
            raise

    def _known_by_shapes(self, most_work: int) -> bool:
        if self._told is None:
            try:
                self._told = not self._by_shapes({}, most_work).failed
            except TooLargeError:
                self._told = True
        return self._told

    def _by_shapes(self, sizes: Mapping[str, int], most_work: int) -> ByShapes:
        room = call_room(self._most_bytes, self._most_output_bytes, most_work)
        return known_by_shapes(lambda: FORMS[self._form](self._text, sizes), room, SEED)

    def at(self, sizes: Mapping[str, int]) -> ReferenceServer:
        """Raises RefusedError."""
        key = tuple(sorted(sizes.items()))
        found = self._kept.pop(key, None)
        found = found or ReferenceServer(self._text, self._most_bytes, sizes, self._most_output_bytes, self._form)
        self._kept[key] = found
        if len(self._kept) > _MOST_KEPT:
            del self._kept[next(iter(self._kept))]
        return found


def serve_reference(
    source: IO[bytes], sink: IO[bytes], text: str, most_bytes: int, most_output_bytes: int, form: str
) -> None:
    """Answer each request about the file `text` in turn until `source` ends."""
    servers = _Servers(text, most_bytes, most_output_bytes, form)
    while header := source.read(16):
        request = json.loads(source.read(struct.unpack("<QQ", header)[0]))
        given = {}
        for one in request["tensors"]:
            dtype = _BY_NAME[one["dtype"]]
            data = bytearray(source.read(math.prod(one["shape"]) * dtype.itemsize))
            given[one["name"]] = torch.frombuffer(data, dtype=dtype).reshape(one["shape"])
        contents: list[bytes] = []
        try:
            reply, named = _reply(servers, request, given)
            reply["tensors"], contents = _encoded(named)
        except RefusedError as refused:
            reply = {"refused": refused.reason, "line": refused.line, "tensors": []}
            if form == "trace" and refused.line is not None:  # of the code that stands in one line of the file
                reply |= {"refused": f"line {refused.line} of its reference: {refused.reason}", "line": None}
            if isinstance(refused, NoOneAnswerError):
                reply["at"] = "calibrating"
            if isinstance(refused, TooLargeError):
                reply |= {"constants": servers.constants, "fixed": servers.fixed}
                reply |= {"found": refused.found, "of": refused.of}
        encoded = json.dumps(reply).encode()
        sink.write(struct.pack("<Q", len(encoded)) + encoded)
        for content in contents:
            sink.write(content)
        sink.flush()
