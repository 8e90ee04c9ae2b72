"""Where cards and tables are printed."""

from rich.console import Console

_NARROWEST = 40


class Screen(Console):
    """Standard output, never narrower than a card needs; a reader that has gone away is no error."""

    def __init__(self) -> None:
        super().__init__()
        self.width = max(self.width, _NARROWEST)

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError
