# problem: swiglu
# style: an autograd.Function, whose forward calls it
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cuda = """
__global__ void swiglu(const float* g, const float* u, float* y, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = g[i] / (1.f + expf(-g[i])) * u[i];
}
torch::Tensor swiglu_cuda(torch::Tensor g, torch::Tensor u)
{
    auto y = torch::empty_like(g);
    swiglu<<<(g.numel() + 255) / 256, 256>>>(g.data_ptr<float>(), u.data_ptr<float>(), y.data_ptr<float>(), g.numel());
    return y;
}
"""
ext = load_inline(
    name="swiglu_autograd_function",
    cpp_sources="torch::Tensor swiglu_cuda(torch::Tensor g, torch::Tensor u);",
    cuda_sources=cuda,
    functions=["swiglu_cuda"],
)


class SwiGlu(torch.autograd.Function):
    @staticmethod
    def forward(ctx, gate, up):
        ctx.save_for_backward(gate, up)
        return ext.swiglu_cuda(gate, up)


class ModelNew(nn.Module):
    def forward(self, gate, up):
        return SwiGlu.apply(gate, up)
