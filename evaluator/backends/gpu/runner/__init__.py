"""What runs in the GPU's sandbox: the process that owns the submission's CUDA context, and how it is started."""
