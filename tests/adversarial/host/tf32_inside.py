# problem: matmul
# attack: TF32 inside a float32 product: ten bits of the mantissa
# expect: incorrect
# because: probes have more digits
import torch


def rounded(x):
    return ((x.view(torch.int32) + 0x1000) & ~0x1FFF).view(torch.float32)


class ModelNew(torch.nn.Module):
    def forward(self, a, b):
        return rounded(a) @ rounded(b)
