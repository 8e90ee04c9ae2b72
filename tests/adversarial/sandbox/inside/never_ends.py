# attack: ignores every signal that it can and never ends
# layer: wall_time
# limits: wall_s=0.6
# ends: wall
import contextlib
import signal
import time

for number in signal.valid_signals():
    with contextlib.suppress(OSError, ValueError):
        signal.signal(number, signal.SIG_IGN)
while True:
    time.sleep(0.01)
