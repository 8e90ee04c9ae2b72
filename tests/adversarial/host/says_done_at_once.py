# problem: relu
# attack: finds the page by which its process says that a call is over, says so before it computes, and computes late
# expect: incorrect|rejected|runtime_error
# because: what counts is the answer in the outputs when the call is said to be over, and it is not there yet
import gc
import threading
import time

import torch


class ModelNew(torch.nn.Module):
    def forward(self, x):
        page = next(one for one in gc.get_objects() if type(one).__name__ == "Handshake")
        number = page._words[0]
        page.done(number)
        threading.Event().wait(0.05)
        time.sleep(0.05)
        return torch.relu(x)
