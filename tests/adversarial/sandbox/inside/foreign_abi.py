# attack: calls the kernel in another dialect, which a filter of call numbers would misread: 32-bit code, x32
# layer: kernel_calls
# ends: signal, itself
# open in: process-bare
import ctypes
import mmap
import os
import sys

from kit import X86, broke

if X86:
    # mov eax, 20 (getpid in the 32-bit table); int 0x80; ret
    page = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    page.write(b"\xb8\x14\0\0\0\xcd\x80\xc3")
    address = ctypes.addressof(ctypes.c_char.from_buffer(page))
    sys.stdout.flush()
    if ctypes.CFUNCTYPE(ctypes.c_int)(address)() == os.getpid():
        broke("a call of the 32-bit table")
