# attack: makes namespaces of its own, in which it would be root: unshare, clone, clone3, setns
# layer: kernel_calls
# open in: process-bare
import os

from kit import broke, call, must_be_refused

must_be_refused("unshare(user)", 272, 97, 0x10000000)
must_be_refused("setns", 308, 268, -1, 0)
must_be_refused("clone3", 435, 435, 0, 0)
made, _error = call(56, 220, 0x10000000 | 17, 0, 0, 0, 0)
if made == 0:
    os._exit(0)
if made > 0:
    os.waitpid(made, 0)
    broke("cloned into a user namespace")
