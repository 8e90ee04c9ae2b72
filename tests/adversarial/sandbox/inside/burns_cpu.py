# attack: burns CPU time within its wall time, having ignored the kernel's warning
# layer: wall_time
# limits: wall_s=20 cpu_s=1
# ends: cpu
import signal

signal.signal(signal.SIGXCPU, signal.SIG_IGN)
while True:
    pass
