# problem: relu
# dialect: triton
# attack: none: the function has another of the names, and returns the output
# expect: passed
# because: what it is not given it returns, as where it is recorded
import torch


def solution(x):
    return torch.relu(x)
