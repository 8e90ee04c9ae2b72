"""The builds of the dialects whose text is not CUDA."""
