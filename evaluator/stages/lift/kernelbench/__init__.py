"""`ModelNew` of KernelBench: what its Python passes to functions that it compiles, with no PyTorch and no data."""
