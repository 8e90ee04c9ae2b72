# problem: relu
# attack: PyTorch's comparisons call everything equal
# expect: incorrect
# because: what compares is in another process
import torch

torch.equal = torch.allclose = lambda *_, **__: True
torch.testing.assert_close = lambda *_, **__: None


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return torch.zeros_like(x)
