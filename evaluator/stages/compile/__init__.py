"""Stage 2, compile: from source text to PTX, a cubin, and the kernels in them."""
