# problem: matmul
# attack: float16 inside a float32 product
# expect: incorrect
# because: probes have more digits
import torch


class ModelNew(torch.nn.Module):
    def forward(self, a, b):
        return (a.half() @ b.half()).float()
