"""A query parameter that a path does not know, or that stands there twice, is refused: nobody is to think that what
was not heard was.
"""

import difflib
from collections.abc import Callable, Coroutine
from typing import Any, TypeAlias

from fastapi import Request, Response
from fastapi.dependencies.utils import get_flat_params
from fastapi.params import Query
from fastapi.routing import APIRoute

from evaluator.errors import UsageError

RouteHandler: TypeAlias = Callable[[Request], Coroutine[Any, Any, Response]]


class KnownQueryRoute(APIRoute):
    """A route that refuses what it does not know."""

    def get_route_handler(self) -> RouteHandler:
        return refusing_unknown(self, super().get_route_handler())


def refusing_unknown(route: APIRoute, handler: RouteHandler) -> RouteHandler:
    """`handler` of `route`, which raises UsageError for a query parameter that it does not have, or has twice."""
    known = sorted(one.alias for one in get_flat_params(route.dependant) if isinstance(one.field_info, Query))

    async def handle(request: Request) -> Response:
        given = request.query_params
        for name in given:
            if name not in known:
                raise _unknown(name, known)
            if len(given.getlist(name)) > 1:
                raise UsageError(f"The query parameter {name!r} is given more than once.", "Give it once.")
        return await handler(request)

    return handle


def _unknown(name: str, known: list[str]) -> UsageError:
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    return UsageError(
        f"This path knows no query parameter {name[:100]!r}{f'; did you mean {near[0]!r}?' if near else '.'}",
        f"Use those that it knows: {', '.join(known)}." if known else "Leave it out: this path knows none.",
    )
