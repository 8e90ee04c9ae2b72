# problem: relu
# attack: none: the form of Triton's dialect, which writes where it is told to
# dialect: triton
# expect: passed
# because: the answer is there
import torch


def run(x, y):
    torch.clamp(x, min=0, out=y)
