# attack: reaches for what kernel exploits begin with: keys, BPF, perf events, io_uring, userfaultfd, modules, kexec
# layer: kernel_calls
# open in: process-bare
from kit import must_be_refused

for name, x86, arm in (
    ("add_key", 248, 217), ("request_key", 249, 218), ("keyctl", 250, 219), ("bpf", 321, 280),
    ("perf_event_open", 298, 241), ("io_uring_setup", 425, 425), ("io_uring_enter", 426, 426),
    ("userfaultfd", 323, 282), ("init_module", 175, 105), ("kexec_load", 246, 104), ("fanotify_init", 300, 262),
    ("quotactl", 179, 60), ("swapon", 167, 224), ("syslog", 103, 116), ("acct", 163, 89), ("settimeofday", 164, 170),
):  # fmt: skip
    must_be_refused(name, x86, arm, -1, -1, -1, -1, -1)
