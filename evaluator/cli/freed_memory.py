"""What a command that grades does with memory that it has freed."""

import contextlib
import ctypes
from typing import Final

_M_TRIM_THRESHOLD: Final = -1
_M_TOP_PAD: Final = -2
_M_MMAP_THRESHOLD: Final = -3
"""mallopt's numbers for them, in glibc's malloc.h."""
_HEAP_BLOCK_BYTES: Final = 32 << 20
"""The most that glibc lets be a block of its heap. Arrays of a trial are up to 16 MiB large, those of float64 that an
oracle takes for the elements of a comparison."""
_KEPT_BYTES: Final = 256 << 20
"""An oracle holds a dozen of such arrays."""
_STEP_BYTES: Final = 16 << 20
"""By which the heap grows: a call of the kernel for each array of the largest kind."""


def keep_freed_memory() -> None:
    """Let this process use again what it freed, up to 256 MiB of it.

    glibc gives each large array back to the system at once, and the kernel then has to clear the next one page by
    page: a fifth of the processor time of a grading of some seconds. A process that lasts had better give it back.
    """
    with contextlib.suppress(AttributeError, OSError):  # another C library has no mallopt
        set_option = ctypes.CDLL(None).mallopt
        set_option(_M_MMAP_THRESHOLD, _HEAP_BLOCK_BYTES)
        set_option(_M_TRIM_THRESHOLD, _KEPT_BYTES)
        set_option(_M_TOP_PAD, _STEP_BYTES)
