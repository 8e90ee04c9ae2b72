# problem: relu
# attack: from a thread, counts the word to go up all the time, so that its calls run before the referee's clock starts
# expect: incorrect|rejected|runtime_error|timeout
# because: the inputs appear only when the clock has started: what ran before has seen none
import gc
import threading

import torch

page = next(one for one in gc.get_objects() if type(one).__name__ == "Handshake")


def hurry():
    while True:
        page.go(page._words[0] + 1 & 0xFFFF)


threading.Thread(target=hurry, daemon=True).start()


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return torch.relu(x)
