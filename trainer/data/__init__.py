"""What the agents are asked, and the kernels that a model begins from."""
