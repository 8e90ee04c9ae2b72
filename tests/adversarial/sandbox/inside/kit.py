"""What the attacks share. Runs inside the sandbox, beside the attack: standard library only.

An attack says `broke` for everything that it got and should not have; what the grader's machine has for it to find is
in `facts` (see sandboxes.py).
"""

import ctypes
import errno
import json
import platform
import sys

facts = json.loads(sys.argv[1])
library = ctypes.CDLL(None, use_errno=True)
X86 = platform.machine() == "x86_64"


def broke(what):
    print("BROKE:", what, flush=True)


def tries(what, act, *arguments):
    """Report `what` if the act succeeds; its result, or None."""
    try:
        result = act(*arguments)
    except (OSError, ValueError):
        return None
    broke(what)
    return result


def call(x86_number, arm_number, *arguments):
    """A raw system call: its result (or -1) and the error's name."""
    longs = [one if isinstance(one, (bytes, ctypes._SimpleCData)) else ctypes.c_long(one) for one in arguments]
    ctypes.set_errno(0)
    result = library.syscall(x86_number if X86 else arm_number, *longs)
    return result, errno.errorcode.get(ctypes.get_errno(), "")


def must_be_refused(name, x86_number, arm_number, *arguments):
    """Report a system call that the kernel looked into, even if it then failed."""
    result, error = call(x86_number, arm_number, *arguments)
    if result >= 0 or error not in ("EPERM", "EACCES", "ENOSYS"):
        broke(f"{name}: {error or result}")
