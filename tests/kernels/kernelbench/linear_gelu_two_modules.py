# problem: linear_gelu
# style: two functions of one module, the second on what the first returned
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cuda = """
__global__ void linear(const float* x, const float* w, const float* b, float* y, int m, int n, int k)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= m * n) return;
    float sum = b[i % n];
    for (int j = 0; j < k; j++) sum += x[(size_t)(i / n) * k + j] * w[(size_t)(i % n) * k + j];
    y[i] = sum;
}
__global__ void gelu(const float* x, float* y, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = 0.5f * x[i] * (1.f + erff(x[i] * 0.70710678f));
}
torch::Tensor linear_cuda(torch::Tensor x, torch::Tensor w, torch::Tensor b)
{
    int m = x.size(0), n = w.size(0);
    auto y = torch::empty({m, n}, x.options());
    linear<<<(m * n + 127) / 128, 128>>>(x.data_ptr<float>(), w.data_ptr<float>(), b.data_ptr<float>(), y.data_ptr<float>(), m, n, x.size(1));
    return y;
}
torch::Tensor gelu_cuda(torch::Tensor x)
{
    auto y = torch::empty_like(x);
    gelu<<<(x.numel() + 127) / 128, 128>>>(x.data_ptr<float>(), y.data_ptr<float>(), x.numel());
    return y;
}
"""
ext = load_inline(
    name="linear_gelu_two_modules",
    cpp_sources="torch::Tensor linear_cuda(torch::Tensor x, torch::Tensor w, torch::Tensor b);\ntorch::Tensor gelu_cuda(torch::Tensor x);",
    cuda_sources=cuda,
    functions=["linear_cuda", "gelu_cuda"],
)


class ModelNew(nn.Module):
    def forward(self, x, weight, bias):
        return ext.gelu_cuda(ext.linear_cuda(x, weight, bias))
