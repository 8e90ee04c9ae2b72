"""The system calls that no job needs and that attacks on the kernel begin with: a seccomp filter that refuses them.

Refused calls fail with EPERM (`clone3` with ENOSYS, so that the C library takes `clone`, whose flags a filter can
see); a call of a foreign ABI (32-bit code on a 64-bit kernel, x32) ends the process. Everything else is allowed: what
compilers, simulated programs and the CUDA driver do is not hindered.

Sources: seccomp(2); the kernel's `include/uapi/linux/{seccomp,filter,audit,sched}.h`; numbers from its tables
`arch/x86/entry/syscalls/syscall_64.tbl` and `include/uapi/asm-generic/unistd.h` (arm64). Docker's default profile
refuses nearly the same.
"""

import ctypes
import errno
import functools
import platform
import struct
from collections.abc import Iterable

_ARCHITECTURES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}
_X32_BIT = 0x40000000

# Numbers on x86_64 and arm64; None where the architecture has no such call.
_NUMBERS: dict[str, tuple[int | None, int | None]] = {
    # other processes
    "ptrace": (101, 117), "process_vm_readv": (310, 270), "process_vm_writev": (311, 271), "kcmp": (312, 272),
    "pidfd_getfd": (438, 438), "process_madvise": (440, 440), "process_mrelease": (448, 448),
    "migrate_pages": (256, 238), "move_pages": (279, 239),
    # other namespaces, other roots, mounts
    "unshare": (272, 97), "setns": (308, 268), "chroot": (161, 51), "pivot_root": (155, 41), "mount": (165, 40),
    "umount2": (166, 39), "open_tree": (428, 428), "move_mount": (429, 429), "fsopen": (430, 430),
    "fsconfig": (431, 431), "fsmount": (432, 432), "fspick": (433, 433), "mount_setattr": (442, 442),
    "open_tree_attr": (467, 467), "statmount": (457, 457), "listmount": (458, 458), "swapon": (167, 224),
    "swapoff": (168, 225), "quotactl": (179, 60), "quotactl_fd": (443, 443), "acct": (163, 89),
    "name_to_handle_at": (303, 264), "open_by_handle_at": (304, 265), "fanotify_init": (300, 262),
    "fanotify_mark": (301, 263),
    # the kernel itself
    "bpf": (321, 280), "perf_event_open": (298, 241), "userfaultfd": (323, 282), "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426), "io_uring_register": (427, 427), "add_key": (248, 217), "request_key": (249, 218),
    "keyctl": (250, 219), "kexec_load": (246, 104), "kexec_file_load": (320, 294), "init_module": (175, 105),
    "finit_module": (313, 273), "delete_module": (176, 106), "create_module": (174, None),
    "query_module": (178, None), "get_kernel_syms": (177, None), "nfsservctl": (180, 42), "_sysctl": (156, None),
    "reboot": (169, 142), "syslog": (103, 116), "lookup_dcookie": (212, 18), "vhangup": (153, 58),
    # the machine: its clock, its names, its ports
    "settimeofday": (164, 170), "clock_settime": (227, 112), "adjtimex": (159, 171), "clock_adjtime": (305, 266),
    "sethostname": (170, 161), "setdomainname": (171, 162), "iopl": (172, None), "ioperm": (173, None),
    "modify_ldt": (154, None), "uselib": (134, None), "ustat": (136, None), "sysfs": (139, None),
    # memory that is counted nowhere and may outlive its maker
    "shmget": (29, 194), "semget": (64, 190), "msgget": (68, 186), "mq_open": (240, 180), "memfd_create": (319, 279),
    "memfd_secret": (447, 447),
    # a plain process's way to the files of its own user that are outside its folder
    "chmod": (90, None), "fchmod": (91, 52), "fchmodat": (268, 53), "fchmodat2": (452, 452), "chown": (92, None),
    "fchown": (93, 55), "lchown": (94, None), "fchownat": (260, 54), "utime": (132, None), "utimes": (235, None),
    "futimesat": (261, None), "utimensat": (280, 88), "setxattr": (188, 5), "lsetxattr": (189, 6),
    "fsetxattr": (190, 7), "setxattrat": (463, 463), "removexattr": (197, 14), "lremovexattr": (198, 15),
    "fremovexattr": (199, 16), "removexattrat": (466, 466), "file_setattr": (469, 469),
    "connect": (42, 203), "bind": (49, 200), "listen": (50, 201),
    # looked at more closely
    "clone": (56, 220), "clone3": (435, 435), "ioctl": (16, 29), "socket": (41, 198), "socketpair": (53, 199),
    "prlimit64": (302, 261), "setrlimit": (160, 164), "kill": (62, 129), "setpriority": (141, 140),
    "ioprio_set": (251, 30), "sched_setaffinity": (203, 122), "sched_setscheduler": (144, 119),
    "sched_setparam": (142, 118), "sched_setattr": (314, 274), "fork": (57, None), "vfork": (58, None),
}  # fmt: skip

_LOOKED_AT = tuple(_NUMBERS)[tuple(_NUMBERS).index("clone") :]
_COUNTED_NOWHERE = ("shmget", "semget", "msgget", "mq_open")
_ANONYMOUS_FILES = ("memfd_create", "memfd_secret")
_OWN_USERS_FILES = tuple(_NUMBERS)[tuple(_NUMBERS).index("chmod") : tuple(_NUMBERS).index("clone")]

DENIED: tuple[str, ...] = tuple(
    name for name in _NUMBERS if name not in (*_LOOKED_AT, *_COUNTED_NOWHERE, *_ANONYMOUS_FILES, *_OWN_USERS_FILES)
)
"""Names of the calls that every job is refused, whatever their arguments."""

_NAMESPACES = 0x7E020000  # CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET
_CLONE_THREAD = 0x00010000
_TIOCSTI, _TIOCLINUX = 0x5412, 0x541C
_AF_UNIX, _AF_INET, _AF_INET6, _AF_NETLINK = 1, 2, 10, 16
_SOCK_STREAM, _SOCK_SEQPACKET = 1, 5
_RLIMIT_CORE = 4

# Of classic BPF: load a word, jump if equal / greater or equal / any bit set, mask, return.
_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _AND, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x54, 0x06
_ALLOW, _KILL = 0x7FFF0000, 0x80000000
_REFUSE, _ABSENT = 0x00050000 | errno.EPERM, 0x00050000 | errno.ENOSYS
_NUMBER_AT, _ARCH_AT = 0, 4
_PR_SET_SECCOMP, _MODE_FILTER = 22, 2

_Step = tuple[int, int, int, int]


@functools.cache
def available() -> bool:
    """Whether this kernel takes filters and this module knows the machine's numbers."""
    # Without a filter the kernel answers EFAULT if it would have taken one.
    refused = ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_SECCOMP, _MODE_FILTER, 0, 0, 0) != 0
    return platform.machine() in _ARCHITECTURES and refused and ctypes.get_errno() == errno.EFAULT


@functools.cache
def program(
    devices: bool = False, descriptors: bool = False, namespaced: bool = True, threads_only: bool = False
) -> bytes:
    """The filter, as an array of `struct sock_filter`, for jobs of one kind.

    `devices`: the job drives a device, whose driver needs more; `descriptors`: it is a runner that is talked to, and
    shows its output through anonymous files; `namespaced`: it has a network, processes and files of its own, else
    sockets, other processes' priorities and its user's files outside its folder are kept from it here;
    `threads_only`: it may start threads and no other process, so that one signal ends all of it.
    """
    column, audit_number = _ARCHITECTURES[platform.machine()]
    steps: list[_Step] = [
        (_LOAD, 0, 0, _ARCH_AT),
        (_EQUAL, 1, 0, audit_number),
        (_RETURN, 0, 0, _KILL),
        (_LOAD, 0, 0, _NUMBER_AT),
    ]
    if column == 0:
        steps += [(_AT_LEAST, 0, 1, _X32_BIT), (_RETURN, 0, 0, _KILL)]
    alone = not namespaced and not devices
    denied = [*DENIED, *(() if devices else _COUNTED_NOWHERE), *(() if devices or descriptors else _ANONYMOUS_FILES)]
    denied += _OWN_USERS_FILES if alone else ()
    for name in denied:
        steps += _when(column, name, [(_RETURN, 0, 0, _REFUSE)])
    steps += _when(column, "clone3", [(_RETURN, 0, 0, _ABSENT)])
    clone = _refuse_if(0, [(_ANY_BIT, _NAMESPACES)])
    if threads_only:
        clone[-1:] = [(_ANY_BIT, 1, 0, _CLONE_THREAD), (_RETURN, 0, 0, _REFUSE), (_RETURN, 0, 0, _ALLOW)]
        for name in ("fork", "vfork"):
            steps += _when(column, name, [(_RETURN, 0, 0, _REFUSE)])
    steps += _when(column, "clone", clone)
    steps += _when(column, "ioctl", _refuse_if(1, [(_EQUAL, _TIOCSTI), (_EQUAL, _TIOCLINUX)]))
    # Limits of itself only; and none on core files, which a pipe in core_pattern would take to mean "as you like".
    others = _unless(0, (0,))[:-1]
    steps += _when(column, "prlimit64", [*others, *_keeps_core_limit(1, 2)])
    steps += _when(column, "setrlimit", _refuse_if(0, [(_EQUAL, _RLIMIT_CORE)]))
    families: tuple[int, ...] = (_AF_UNIX, _AF_INET, _AF_INET6)
    if devices:
        families = (*families, _AF_NETLINK)
    steps += _when(column, "socket", _unless(0, () if alone else families))
    if alone:
        # A pair of datagram sockets could still be pointed at any socket's path.
        steps += _when(column, "socketpair", _unless(1, (_SOCK_STREAM, _SOCK_SEQPACKET), mask=0xF))
        for name in ("sched_setaffinity", "sched_setscheduler", "sched_setparam", "sched_setattr"):
            steps += _when(column, name, _unless(0, (0,)))
        steps += _when(column, "setpriority", [*_unless(0, (0,))[:-1], *_unless(1, (0,))])
        steps += _when(column, "ioprio_set", [*_unless(0, (1,))[:-1], *_unless(1, (0,))])
    if not namespaced:
        steps += _when(column, "kill", _refuse_if(0, [(_EQUAL, 0xFFFFFFFF)]))  # -1: everyone it may signal
    steps.append((_RETURN, 0, 0, _ALLOW))
    return b"".join(struct.pack("<HBBI", code, then, otherwise, operand) for code, then, otherwise, operand in steps)


def _when(column: int, name: str, body: list[_Step]) -> list[_Step]:
    """Run `body`, which has to return, when the call is this one; the number stays loaded for the next otherwise."""
    number = _NUMBERS[name][column]
    return [] if number is None else [(_EQUAL, 0, len(body), number), *body]


def _argument(index: int) -> _Step:
    # The lower half: all that is looked at here are 32-bit integers, of which the kernel ignores the rest.
    return (_LOAD, 0, 0, 16 + 8 * index)


def _refuse_if(index: int, tests: Iterable[tuple[int, int]]) -> list[_Step]:
    steps = [_argument(index)]
    for code, operand in tests:
        steps += [(code, 0, 1, operand), (_RETURN, 0, 0, _REFUSE)]
    return [*steps, (_RETURN, 0, 0, _ALLOW)]


def _unless(index: int, allowed: tuple[int, ...], mask: int | None = None) -> list[_Step]:
    """Refuse unless the argument is one of `allowed`; the last step returns "allow" and may be left out."""
    steps = [_argument(index)]
    steps += [] if mask is None else [(_AND, 0, 0, mask)]
    for position, value in enumerate(allowed):
        steps.append((_EQUAL, len(allowed) - position, 0, value))
    return [*steps, (_RETURN, 0, 0, _REFUSE), (_RETURN, 0, 0, _ALLOW)]


def _keeps_core_limit(kind: int, new: int) -> list[_Step]:
    """Refuse a new limit (a pointer, argument `new`) of the kind RLIMIT_CORE (argument `kind`)."""
    high = (_LOAD, 0, 0, 16 + 8 * new + 4)
    return [
        _argument(kind),
        (_EQUAL, 0, 5, _RLIMIT_CORE),
        _argument(new),
        (_EQUAL, 0, 2, 0),
        high,
        (_EQUAL, 1, 0, 0),
        (_RETURN, 0, 0, _REFUSE),
        (_RETURN, 0, 0, _ALLOW),
    ]
