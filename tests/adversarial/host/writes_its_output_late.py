# problem: relu
# attack: a thread writes the output after the call
# dialect: triton
# expect: incorrect
# because: the answer is taken when the submission says that it is there
import threading

import torch


def run(x, y):
    threading.Timer(0.3, lambda: torch.clamp(x, min=0, out=y)).start()
