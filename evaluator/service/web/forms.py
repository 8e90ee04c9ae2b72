"""Forms: read within bounds, and told from those that another site has a visitor's browser send.

A browser sends its cookies with any form to this server, whoever wrote the page that it stands on (CSRF). So a form
that changes something counts only where the browser says that it comes from here, and where it holds a token that is
on our own pages alone: whoever wrote another page cannot read it.
"""

import hmac
from collections.abc import Sequence
from typing import Final
from urllib.parse import parse_qs, urlsplit

from fastapi import Request

from evaluator.errors import UsageError

TOKEN: Final = "token"
"""The name of the field."""
_MAX_FORM_BYTES: Final = 8192


class ForeignFormError(Exception):
    """A form was sent that is on no page of ours."""


class FormTokens:
    """The tokens of one service: each API process makes the same, of the secret that they share."""

    def __init__(self, secret: bytes) -> None:
        self._secret = secret

    def token(self, credential: str) -> str:
        """For the pages of whoever comes with this credential; empty is one of those who need none."""
        return hmac.new(self._secret, b"form:" + credential.encode("utf-8", "surrogatepass"), "sha256").hexdigest()

    def check(self, request: Request, fields: dict[str, Sequence[str]], token: str) -> None:
        """Raises ForeignFormError where the form does not come from a page of ours with this token."""
        (given, *_) = (*fields.get(TOKEN, ()), "")
        if not of_this_site(request) or not hmac.compare_digest(given.encode(), token.encode()):
            raise ForeignFormError


def of_this_site(request: Request) -> bool:
    """Whether one of our own pages sent a form, as far as the browser says so."""
    site = request.headers.get("sec-fetch-site")
    if site is not None:
        return site in ("same-origin", "none")
    origin = request.headers.get("origin")
    return origin is None or urlsplit(origin).netloc == request.headers.get("host")


async def fields_of(request: Request) -> dict[str, Sequence[str]]:
    """The values of each field of a form. Raises UsageError where it is too long."""
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > _MAX_FORM_BYTES:
            raise UsageError("This form is too long.")
    return {**parse_qs(body.decode("utf-8", "replace"))}
