"""Models that write kernels: loaded, saved, tuned on examples."""
