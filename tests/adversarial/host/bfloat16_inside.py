# problem: matmul
# attack: bfloat16 inside a float32 product
# expect: incorrect
# because: probes have more digits
import torch


class ModelNew(torch.nn.Module):
    def forward(self, a, b):
        return (a.bfloat16() @ b.bfloat16()).float()
