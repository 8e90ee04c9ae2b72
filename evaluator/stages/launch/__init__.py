"""Stage 3, launch: from a plan and the compiled kernels to launches in which every number is known."""
