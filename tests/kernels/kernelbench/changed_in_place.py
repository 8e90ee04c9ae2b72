# problem: references/changed_in_place.py
# style: it changes its inputs in place, as the reference does
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = """
__global__ void both(float* x, float* y, float* twice, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    y[i] += x[i];
    x[i] = fmaxf(x[i], 0.f);
    twice[i] = 2.f * x[i];
}
torch::Tensor both_of(torch::Tensor x, torch::Tensor y)
{
    auto twice = torch::empty_like(x);
    int n = x.numel();
    both<<<(n + 127) / 128, 128>>>(x.data_ptr<float>(), y.data_ptr<float>(), twice.data_ptr<float>(), n);
    return twice;
}
"""
ext = load_inline(
    name="both",
    cpp_sources="torch::Tensor both_of(torch::Tensor, torch::Tensor);",
    cuda_sources=source,
    functions=["both_of"],
)


class ModelNew(nn.Module):
    def forward(self, x, y):
        twice = ext.both_of(x, y)
        return y, twice
