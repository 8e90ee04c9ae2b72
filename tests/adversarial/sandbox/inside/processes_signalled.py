# attack: signals its parent, the grader and a bystander, by number and by descriptor
# layer: other_processes
# open in: process-bare
import os
import signal

from kit import facts, tries

# SIGURG is ignored by whoever does not ask for it: a success is seen and harms nobody.
for pid in (facts["bystander"], facts["grader"]):
    tries(f"signalled {pid}", os.kill, pid, signal.SIGURG)
    tries(f"signalled {pid} by descriptor", lambda p=pid: signal.pidfd_send_signal(os.pidfd_open(p), signal.SIGURG))
if facts["kind"].startswith("process"):
    tries("signalled its warden", os.kill, os.getppid(), signal.SIGURG)
