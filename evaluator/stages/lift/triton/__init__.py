"""Lifting Triton: from a Python text that nobody trusts to kernels in PTX and the launch plan of what it launches."""
