# problem: vector_add
# style: float4 loads, the rest by the last thread
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cuda = """
__global__ void add4(const float* a, const float* b, float* c, int n)
{
    int i = 4 * (blockIdx.x * blockDim.x + threadIdx.x);
    if (i + 3 < n) {
        float4 x = *reinterpret_cast<const float4*>(a + i), y = *reinterpret_cast<const float4*>(b + i);
        *reinterpret_cast<float4*>(c + i) = make_float4(x.x + y.x, x.y + y.y, x.z + y.z, x.w + y.w);
    } else {
        for (; i < n; i++) c[i] = a[i] + b[i];
    }
}
torch::Tensor add_cuda(torch::Tensor a, torch::Tensor b)
{
    auto c = torch::empty_like(a);
    int n = a.numel();
    add4<<<(n + 1023) / 1024, 256>>>(a.data_ptr<float>(), b.data_ptr<float>(), c.data_ptr<float>(), n);
    return c;
}
"""
ext = load_inline(
    name="add_float4",
    cpp_sources="torch::Tensor add_cuda(torch::Tensor a, torch::Tensor b);",
    cuda_sources=cuda,
    functions=["add_cuda"],
)


class ModelNew(nn.Module):
    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return ext.add_cuda(a, b)
