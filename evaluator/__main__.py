"""Where the command `assay` begins: Ctrl-C is quiet from the first moment, imports included."""

import os
import signal
import sys
from types import FrameType


def main() -> None:
    """Run the command."""
    before = signal.signal(signal.SIGINT, _interrupted)
    from evaluator.cli import main as cli

    signal.signal(signal.SIGINT, before)
    cli.main()


def _interrupted(number: int, frame: FrameType | None) -> None:
    # No exception: an import that is under way could catch it.
    sys.stderr.write("assay: interrupted; nothing had begun.\n")
    sys.stderr.flush()
    os._exit(128 + number)


if __name__ == "__main__":
    main()
