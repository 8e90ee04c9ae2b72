# problem: relu
# attack: an include of a file of the host, which two texts of load_inline make together
# expect: rejected
# because: what is compiled is screened, and not its parts
import torch
from torch.utils.cpp_extension import load_inline

module = load_inline(
    name="parts",
    cpp_sources=["#inc\\", 'lude "/etc/passwd"\ntorch::Tensor above(torch::Tensor x) { return at::relu(x); }'],
    functions=["above"],
)


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return module.above(x)
