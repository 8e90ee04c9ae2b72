"""The simulator: runs nvcc's PTX on the CPU, every thread, every access checked.

    ptx/ (text -> module -> blocks, liveness)  ->  codegen/ (C++)  ->  backend.py (compiled, run, spoken to)

`codegen/function.py` writes one function: its branches itself, memory and calls by `memory.py`, all other
instructions by `instructions.py` (arithmetic, bitwise, conversions) on `operands.py`. `runtime/` holds the C++ that
the text is compiled with: lanes, memory, scheduler and the pipe to the referee.
"""
