# attack: hides memory in System V segments, which outlive their maker
# layer: no_leftovers
# open in: process-bare
import ctypes

from kit import broke, call

for name, x86, arm, arguments in (
    ("a segment", 29, 194, (0, 1 << 20, 0o1600)),
    ("a semaphore", 64, 190, (0, 1, 0o1600)),
    ("a queue of messages", 68, 186, (0, 0o1600)),
):
    made, _error = call(x86, arm, *arguments)
    if made >= 0:
        broke(f"made {name}")
        remove = {29: ctypes.CDLL(None).shmctl, 68: ctypes.CDLL(None).msgctl}.get(x86)
        if remove:
            remove(made, 0, None)
        else:
            ctypes.CDLL(None).semctl(made, 0, 0)
