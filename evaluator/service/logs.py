"""Logs, one line for each event: for people on a terminal, as JSON elsewhere.

What is bound (a request's id, an evaluation's) stands in every line.
"""

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO, cast

import structlog
from structlog.typing import FilteringBoundLogger, Processor

_CHATTY = ("alembic", "uvicorn")
"""Libraries whose steps on the way up and down are no events of the service's."""
_COMMON: tuple[Processor, ...] = (
    structlog.contextvars.merge_contextvars,
    structlog.stdlib.add_log_level,
    structlog.processors.TimeStamper(fmt="iso", utc=True),
    structlog.processors.StackInfoRenderer(),
    structlog.processors.format_exc_info,
)


def configure(stream: TextIO | None = None, level: int | None = None) -> None:
    """Write every log line of this process, those of libraries included, to `stream` (standard error).

    As JSON; on a terminal in words, and there only warnings are shown, unless `level` says otherwise.
    """
    stream = stream or sys.stderr
    level = level or (logging.WARNING if stream.isatty() else logging.INFO)
    handler = logging.StreamHandler(stream)
    last: tuple[Processor, ...] = (
        structlog.stdlib.ProcessorFormatter.remove_processors_meta,
        # Its own pictures of exceptions show the values of variables, which are callers' sources.
        structlog.dev.ConsoleRenderer(colors=False, exception_formatter=structlog.dev.plain_traceback)
        if stream.isatty()
        else structlog.processors.JSONRenderer(),
    )
    handler.setFormatter(structlog.stdlib.ProcessorFormatter(processors=last, foreign_pre_chain=_COMMON))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)
    for name in _CHATTY:
        logging.getLogger(name).setLevel(logging.WARNING)
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            structlog.stdlib.add_logger_name,
            *_COMMON,
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=False,
    )


def logger(name: str) -> FilteringBoundLogger:
    """Who writes events: `logger("api").info("accepted", evaluation_id=id)`."""
    return cast(FilteringBoundLogger, structlog.get_logger(name))


@contextmanager
def bound(**values: object) -> Iterator[None]:
    """Whatever is logged in here, in this task or thread, carries these values."""
    with structlog.contextvars.bound_contextvars(**values):
        yield
