# attack: leaves a daemon: double fork, a session of its own, all descriptors closed, signals ignored
# layer: no_leftovers
import os
import signal
import time

if os.fork() == 0:
    os.setsid()
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)
    if os.fork() == 0:
        os.closerange(0, 256)
        while True:
            time.sleep(0.05)
    os._exit(0)
