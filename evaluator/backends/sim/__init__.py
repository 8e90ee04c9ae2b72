"""The simulator: runs nvcc's PTX on the CPU, every thread, every access checked.

    parsing.py (text -> ptx.py) -> flow.py (blocks, liveness) -> translation.py (C++) -> simulator.py

`function.py` writes one function: its branches itself, memory and calls by `effects.py`, all other instructions by
`instructions.py` (arithmetic, bits, moves) on `operands.py`. `native/` holds the C++ that the text is compiled with:
lanes, memory, scheduler and the pipe to the referee.
"""
