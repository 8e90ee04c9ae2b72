"""The builds of the dialects whose text is not CUDA, and what a text in the wrong one is told."""
