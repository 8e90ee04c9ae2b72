"""Written for a GPU: `forward` gets a list, numbers and None; it returns a dict; a table is made at the file's top."""

import torch
import torch.nn as nn

COUNT: int = 300
device = torch.device("cuda")
TABLE = torch.tensor([1.0, 2.0]).cuda()


class Model(nn.Module):
    def forward(self, pair, scale: float, steps: int, mode="sum", mask=None):
        first, second = pair
        total = scale * first + second if mode == "sum" and mask is None else first
        return {"total": total + TABLE.to(device)[0], "other": [first - steps * second]}


def get_inputs():
    scale = 2.5
    pair = [torch.randn(COUNT, device=device), torch.randn(COUNT).cuda()]
    torch.cuda.synchronize()
    return [pair, scale, 3, "sum", None]
