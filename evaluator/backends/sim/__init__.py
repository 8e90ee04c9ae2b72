"""The simulator: runs nvcc's PTX on the CPU, every thread, every access checked.

    ptx.py (functions) -> flow.py (blocks, liveness) -> instructions.py, translation.py (C++) -> simulator.py

`native/` holds the C++ that the translation is compiled with: lanes, memory, scheduler and the pipe to the referee.
"""
