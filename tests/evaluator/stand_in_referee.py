"""A referee's process on the stand-in device: `python stand_in_referee.py SOCKET DATA_FOLDER`."""

import contextlib
import socket
import sys
from pathlib import Path

from stand_in import StandInServices

from evaluator.pipeline.gpu.server import serve
from evaluator.sandbox import selftest


def main():
    place, data = map(Path, sys.argv[1:])
    (data / "work").mkdir(parents=True, exist_ok=True)
    services = StandInServices(selftest.choose(data / "work"))
    with contextlib.closing(services.runtime), socket.socket(socket.AF_UNIX) as listener:
        place.unlink(missing_ok=True)
        listener.bind(str(place))
        listener.listen(16)
        serve(listener, services, idle_s=60)


if __name__ == "__main__":
    main()
