# attack: traces other processes, and has itself traced
# layer: kernel_calls
# open in: process-bare
from kit import call, facts, must_be_refused

attach, seize, detach, trace_me = 16, 0x4206, 17, 0
must_be_refused("ptrace(SEIZE)", 101, 117, seize, facts["bystander"], 0, 0)
call(101, 117, detach, facts["bystander"], 0, 0)
must_be_refused("ptrace(TRACEME)", 101, 117, trace_me, 0, 0, 0)
