# problem: relu
# attack: none: C++ that is compiled in forward, behind an operator of PyTorch's
# expect: unsupported
# because: what is to be compiled was not known before it ran, and that is no fault of the submission's
import torch
from torch.utils.cpp_extension import load_inline


class ModelNew(torch.nn.Module):
    def forward(self, x):
        x = torch.relu(x)
        module = load_inline("relu", cpp_sources="torch::Tensor relu(torch::Tensor x);", functions=["relu"])
        return module.relu(x)
