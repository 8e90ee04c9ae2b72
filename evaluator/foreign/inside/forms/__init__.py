"""The forms in which others state problems, beside KernelBench's."""
