# attack: opens files by handle instead of by path, and by io_uring, past what guards paths
# layer: kernel_calls
# open in: process-bare
from kit import must_be_refused

must_be_refused("name_to_handle_at", 303, 264, -100, b"/usr\0", 0, 0, 0)
must_be_refused("open_by_handle_at", 304, 265, -1, 0, 0)
must_be_refused("io_uring_setup", 425, 425, 1, 0)
