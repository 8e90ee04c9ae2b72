# problem: relu
# attack: none: C++ that is compiled while it runs, and an operator of PyTorch's beside it
# expect: unsupported
# because: there is no compiler in the process that has the GPU, and that is no fault of the submission's
import torch
from torch.utils.cpp_extension import load_inline

module = load_inline("relu", cpp_sources="torch::Tensor relu(torch::Tensor x);", cuda_sources="", functions=["relu"])


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return torch.relu(module.relu(x))
