"""What the benchmarks share: records, kernels to grade, services and runs to measure."""
