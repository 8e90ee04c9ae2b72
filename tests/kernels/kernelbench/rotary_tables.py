# problem: references/rotary_tables.py
# style: the reference's own __init__, with tables of arange, outer, cos and sin, and a parameter of a number
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = """
__global__ void rotary(const float* x, const float* c, const float* s, const float* gain, float* y, bool* above,
                       int rows, int half)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= rows * half) return;
    int a = i / half * 2 * half + i % half, b = a + half;
    y[a] = (x[a] * c[i] - x[b] * s[i]) * *gain;
    y[b] = (x[b] * c[i] + x[a] * s[i]) * *gain;
    above[a] = x[a] > 0;
    above[b] = x[b] > 0;
}
std::vector<torch::Tensor> rotate(torch::Tensor x, torch::Tensor c, torch::Tensor s, torch::Tensor gain)
{
    auto y = torch::empty_like(x), above = torch::empty(x.sizes(), x.options().dtype(torch::kBool));
    int rows = x.size(0), half = x.size(1) / 2;
    rotary<<<(rows * half + 63) / 64, 64>>>(x.data_ptr<float>(), c.data_ptr<float>(), s.data_ptr<float>(),
                                            gain.data_ptr<float>(), y.data_ptr<float>(), above.data_ptr<bool>(),
                                            rows, half);
    return {y, above};
}
"""
ext = load_inline(
    name="rotate",
    cpp_sources="std::vector<torch::Tensor> rotate(torch::Tensor, torch::Tensor, torch::Tensor, torch::Tensor);",
    cuda_sources=source,
    functions=["rotate"],
)


class ModelNew(nn.Module):
    def __init__(self, width, longest=64):
        super().__init__()
        speed = 1.0 / (10000 ** (torch.arange(0, width, 2).float() / width))
        angle = torch.outer(torch.arange(longest).float(), speed)
        self.register_buffer("cos", angle.cos(), persistent=False)
        self.register_buffer("sin", angle.sin(), persistent=False)
        self.register_buffer("own", torch.tril(torch.ones(longest, longest)).view(1, longest, longest))
        self.gain = nn.Parameter(torch.tensor(0.5))

    def forward(self, x):
        y, above = ext.rotate(x, self.cos, self.sin, self.gain)
        return y, above
