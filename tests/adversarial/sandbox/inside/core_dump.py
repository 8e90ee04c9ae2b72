# attack: dumps core, having asked for core files without limit
# layer: no_leftovers
# ends: signal
import contextlib
import os
import resource

with contextlib.suppress(OSError, ValueError):
    resource.setrlimit(resource.RLIMIT_CORE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
with contextlib.suppress(OSError, ValueError):
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # for a pipe in core_pattern: no limit
os.abort()
