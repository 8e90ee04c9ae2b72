"""The simulator: runs nvcc's PTX on the CPU, every thread, every access checked.

    ptx/ (text -> module)  ->  codegen/ (C++)  ->  backend.py (compiled, run, spoken to)

`codegen/` takes a function through passes, a file each: `control_flow.py` (basic blocks), `masks.py` (liveness, and
which writes need a lane mask), `function.py` (its C++ text) and `module.py` (all functions, tables, variables). What
an instruction becomes, and what the passes ask about it, stands in one table (`table.py`), which the families of
`lowering/` fill and `instructions.py` reads. `runtime/` holds the C++ that the text is compiled with: lanes, memory,
scheduler and the pipe to the referee.
"""
