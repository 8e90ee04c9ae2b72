# attack: starts ever more threads
# layer: process_limit
# limits: processes=16
# ends: processes, refused
import threading
import time

from kit import broke

threading.stack_size(64 << 10)
for _ in range(100):
    threading.Thread(target=time.sleep, args=(2,), daemon=True).start()
time.sleep(1)
broke("had 100 threads at a time")
