"""NVIDIA's own tools around a run: Nsight Compute and compute-sanitizer."""
