"""The evaluator: grades one CUDA kernel for one problem and returns a verdict."""

__version__ = "0.1.0"
