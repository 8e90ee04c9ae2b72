# problem: relu
# attack: none: C++ of load_inline between PyTorch's operators
# expect: passed
# because: it is compiled ahead, and found by what load_inline is given
import torch
from torch.utils.cpp_extension import load_inline

module = load_inline(
    name="clamped",
    cpp_sources="torch::Tensor above(torch::Tensor x, double low) { return at::clamp_min(x, low); }",
    functions=["above"],
)


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return module.above(torch.clone(x), 0.0)
