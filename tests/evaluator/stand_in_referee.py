"""A referee's process on the stand-in device: `python stand_in_referee.py SOCKET DATA_FOLDER`."""

import contextlib
import sys
from pathlib import Path

from stand_in import StandInServices

from evaluator.pipeline.gpu.server import serve
from evaluator.pipeline.gpu.socket_file import listening_at
from evaluator.sandbox import selftest


def main():
    place, data = map(Path, sys.argv[1:])
    (data / "work").mkdir(parents=True, exist_ok=True)
    services = StandInServices(selftest.choose(data / "work"))
    with contextlib.closing(services.runtime), listening_at(place) as file:
        serve(file.listener, services, 60, file.is_there)


if __name__ == "__main__":
    main()
