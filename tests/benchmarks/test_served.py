"""The service that benchmarks start for themselves."""

import socket
import subprocess
import sys
import time
from urllib.parse import urlsplit

SERVED = """
import time
from benchmarks._support.served import served
with served(1) as service:
    print(service.url, flush=True)
    time.sleep(600)
"""


def answers(url):
    at = urlsplit(url)
    try:
        socket.create_connection((at.hostname, at.port), timeout=1).close()
    except OSError:
        return False
    return True


def test_the_service_of_a_benchmark_that_was_killed_ends():
    with subprocess.Popen([sys.executable, "-c", SERVED], stdout=subprocess.PIPE, text=True) as process:
        url = process.stdout.readline().strip()
        assert answers(url)
        process.kill()
    until_s = time.monotonic() + 60
    while answers(url):
        assert time.monotonic() < until_s
        time.sleep(0.2)
