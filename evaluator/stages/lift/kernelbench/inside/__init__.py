"""What runs in the sandbox beside a solution: parts of PyTorch that pass tensors on, and nothing that computes."""
