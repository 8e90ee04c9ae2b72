# problem: prefix_sum
# style: one block that goes over all tiles with a carry
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cuda = """
__global__ void prefix(const float* x, float* y, int n)
{
    __shared__ float held[256];
    float before = 0.f;
    for (int start = 0; start < n; start += 256) {
        int i = start + threadIdx.x;
        held[threadIdx.x] = i < n ? x[i] : 0.f;
        __syncthreads();
        for (int d = 1; d < 256; d *= 2) {
            float add = threadIdx.x >= d ? held[threadIdx.x - d] : 0.f;
            __syncthreads();
            held[threadIdx.x] += add;
            __syncthreads();
        }
        if (i < n) y[i] = before + held[threadIdx.x];
        before += held[255];
        __syncthreads();
    }
}
torch::Tensor prefix_cuda(torch::Tensor x)
{
    auto y = torch::empty_like(x);
    prefix<<<1, 256>>>(x.data_ptr<float>(), y.data_ptr<float>(), x.numel());
    return y;
}
"""
ext = load_inline(
    name="prefix_sum_one_block",
    cpp_sources="torch::Tensor prefix_cuda(torch::Tensor x);",
    cuda_sources=cuda,
    functions=["prefix_cuda"],
)


class ModelNew(nn.Module):
    def forward(self, x):
        return ext.prefix_cuda(x)
