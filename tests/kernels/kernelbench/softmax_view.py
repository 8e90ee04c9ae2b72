# problem: softmax
# style: reshaped before and after, sizes passed as numbers, a function beside the class
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = """
__global__ void softmax_rows(const float* x, float* y, int cols)
{
    const float* row = x + (size_t)blockIdx.x * cols;
    __shared__ float shared[32];
    float most = -INFINITY;
    for (int i = threadIdx.x; i < cols; i += 32) most = fmaxf(most, row[i]);
    for (int o = 16; o; o /= 2) most = fmaxf(most, __shfl_xor_sync(~0u, most, o));
    float sum = 0.f;
    for (int i = threadIdx.x; i < cols; i += 32) sum += expf(row[i] - most);
    for (int o = 16; o; o /= 2) sum += __shfl_xor_sync(~0u, sum, o);
    shared[threadIdx.x] = sum;
    for (int i = threadIdx.x; i < cols; i += 32) y[(size_t)blockIdx.x * cols + i] = expf(row[i] - most) / shared[threadIdx.x];
}

void softmax_into(torch::Tensor x, torch::Tensor y, int64_t rows, int64_t cols)
{
    softmax_rows<<<rows, 32>>>(x.data_ptr<float>(), y.data_ptr<float>(), (int)cols);
}
"""
module = load_inline(
    name="softmax",
    cpp_sources="void softmax_into(torch::Tensor x, torch::Tensor y, int64_t rows, int64_t cols);",
    cuda_sources=source,
    functions="softmax_into",
)


def softmax(x):
    flat = x.view(-1, x.shape[-1])
    out = torch.empty_like(flat)
    module.softmax_into(flat, out, flat.size(0), flat.size(1))
    return out.reshape(x.shape)


class ModelNew(nn.Module):
    def forward(self, x):
        assert x.is_cuda and x.dtype == torch.float32
        return softmax(x)
