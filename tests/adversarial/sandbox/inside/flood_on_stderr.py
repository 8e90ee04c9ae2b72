# attack: writes to stderr without end
# layer: output_limit
# limits: output_bytes=1048576
# ends: output
import os

while True:
    os.write(2, b"x" * 65536)
