# problem: matmul_f16
# style: at::Half in and out, float in between
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cuda = """
#include <cuda_fp16.h>
__global__ void product(const __half* a, const __half* b, __half* c, int m, int n, int k)
{
    int col = blockIdx.x * 16 + threadIdx.x, row = blockIdx.y * 16 + threadIdx.y;
    if (row >= m || col >= n) return;
    float sum = 0.f;
    for (int i = 0; i < k; i++) sum += __half2float(a[(size_t)row * k + i]) * __half2float(b[(size_t)i * n + col]);
    c[(size_t)row * n + col] = __float2half(sum);
}
torch::Tensor matmul_cuda(torch::Tensor a, torch::Tensor b)
{
    int m = a.size(0), k = a.size(1), n = b.size(1);
    auto c = torch::empty({m, n}, a.options());
    product<<<dim3((n + 15) / 16, (m + 15) / 16), dim3(16, 16)>>>(
        reinterpret_cast<const __half*>(a.data_ptr<at::Half>()), reinterpret_cast<const __half*>(b.data_ptr<at::Half>()),
        reinterpret_cast<__half*>(c.data_ptr<at::Half>()), m, n, k);
    return c;
}
"""
ext = load_inline(
    name="matmul_f16_accumulate",
    cpp_sources="torch::Tensor matmul_cuda(torch::Tensor a, torch::Tensor b);",
    cuda_sources=cuda,
    functions=["matmul_cuda"],
)


class ModelNew(nn.Module):
    def forward(self, a, b):
        return ext.matmul_cuda(a, b)
