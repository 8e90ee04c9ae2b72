"""The API's own description: `/openapi.json`, and `/docs` as a page, which loads nothing from another host.

A script of another host would run on the pages' own origin: it could read what a signed-in viewer sees, and the key
that is typed into the page; and where there is no way to that host the page would stay empty.
"""

import base64
import hashlib
import re
from collections.abc import Callable, Coroutine
from importlib import resources
from pathlib import Path

from fastapi import APIRouter, Request, Response
from fastapi.openapi.docs import get_swagger_ui_html
from fastapi.responses import FileResponse, HTMLResponse, JSONResponse

from evaluator.service.web.query import KnownQueryRoute

PATH = "/docs"
DESCRIPTION = "/openapi.json"
_FILES = {
    "swagger-ui-bundle.js": "text/javascript",
    "swagger-ui.css": "text/css",
    "favicon.png": "image/png",
}
_INLINE = re.compile(r"<script>(.*?)</script>", re.DOTALL)


def router(title: str) -> APIRouter:
    """The description, the page, and the files that it loads."""
    manual = APIRouter(include_in_schema=False, route_class=KnownQueryRoute)

    @manual.get(PATH)
    async def page(request: Request) -> Response:
        root = request.scope.get("root_path", "")
        text = bytes(
            get_swagger_ui_html(
                openapi_url=f"{root}{DESCRIPTION}",
                title=title,
                swagger_js_url=f"{root}{PATH}/swagger-ui-bundle.js",
                swagger_css_url=f"{root}{PATH}/swagger-ui.css",
                swagger_favicon_url=f"{root}{PATH}/favicon.png",
            ).body
        ).decode()
        return HTMLResponse(text, headers={"Content-Security-Policy": _policy(text)})

    @manual.get(DESCRIPTION)
    async def description(request: Request) -> Response:
        return JSONResponse(request.app.openapi())

    for name, kind in _FILES.items():
        manual.add_api_route(f"{PATH}/{name}", _sender(name, kind))
    return manual


def _sender(name: str, kind: str) -> Callable[[], Coroutine[None, None, Response]]:
    path = Path(str(resources.files("fastapi_offline") / "static" / name))

    async def send() -> Response:
        return FileResponse(path, media_type=kind, headers={"Cache-Control": "public, max-age=3600"})

    return send


def _policy(text: str) -> str:
    # Swagger UI writes style attributes while it runs. Its script is let in by its origin, the page's by its hash.
    hashes = [base64.b64encode(hashlib.sha256(one.encode()).digest()).decode() for one in _INLINE.findall(text)]
    scripts = " ".join(["'self'", *(f"'sha256-{one}'" for one in hashes)])
    return (
        f"default-src 'none'; script-src {scripts}; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
        "connect-src 'self'; form-action 'none'; base-uri 'none'; frame-ancestors 'none'"
    )
