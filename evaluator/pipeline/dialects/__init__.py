"""The builds of the dialects whose text is not CUDA, and how a text in the wrong one is refused."""
