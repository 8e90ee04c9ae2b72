# attack: takes memory in one process
# layer: memory_limit
# limits: memory_bytes=268435456
# ends: memory, refused
from kit import broke

block = bytearray(400 << 20)
block[::4096] = bytes(len(block[::4096])).replace(b"\0", b"x")
broke("took 400 MiB")
