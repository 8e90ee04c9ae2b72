"""The evaluator: grades one CUDA kernel for one problem and returns a verdict."""

import os

# The oracles' matrix products are small: threads that spin for work cost more than they bring, and steal the
# processor from compilers and simulated kernels. Has to be said before numpy is imported.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

__version__ = "0.1.0"
