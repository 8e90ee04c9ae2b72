# attack: raises its own priority, and slows, moves or limits other processes
# layer: other_processes
# open in: process-bare
import os
import resource

from kit import facts, tries

victim = facts["bystander"]
tries("raised its priority", os.setpriority, os.PRIO_PROCESS, 0, -20)
tries("became real-time", os.sched_setscheduler, 0, os.SCHED_FIFO, os.sched_param(1))
tries("slowed another", os.setpriority, os.PRIO_PROCESS, victim, 1)
tries("moved another", os.sched_setaffinity, victim, {0})
tries("limited another", resource.prlimit, victim, resource.RLIMIT_NOFILE, (100, 4096))
