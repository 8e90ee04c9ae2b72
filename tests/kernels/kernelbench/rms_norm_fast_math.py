# problem: rms_norm
# style: extra_cuda_cflags, @torch.no_grad above forward
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cuda = """
__global__ void rms_norm(const float* x, const float* w, float* y, float eps, int cols)
{
    __shared__ float total;
    if (threadIdx.x == 0) total = 0.f;
    __syncthreads();
    float sum = 0.f;
    for (int c = threadIdx.x; c < cols; c += blockDim.x) sum += x[(size_t)blockIdx.x * cols + c] * x[(size_t)blockIdx.x * cols + c];
    atomicAdd(&total, sum);
    __syncthreads();
    float scale = rsqrtf(total / cols + eps);
    for (int c = threadIdx.x; c < cols; c += blockDim.x) y[(size_t)blockIdx.x * cols + c] = x[(size_t)blockIdx.x * cols + c] * scale * w[c];
}
torch::Tensor rms_norm_cuda(torch::Tensor x, torch::Tensor w, double eps)
{
    auto y = torch::empty_like(x);
    rms_norm<<<x.size(0), 64>>>(x.data_ptr<float>(), w.data_ptr<float>(), y.data_ptr<float>(), eps, x.size(1));
    return y;
}
"""
ext = load_inline(
    name="rms_norm_fast_math",
    cpp_sources="torch::Tensor rms_norm_cuda(torch::Tensor x, torch::Tensor w, double eps);",
    cuda_sources=cuda,
    functions=["rms_norm_cuda"],
    extra_cflags=["-O3"],
    extra_cuda_cflags=["-O3", "-lineinfo"],
    verbose=False,
)


class ModelNew(nn.Module):
    @torch.no_grad()
    def forward(self, x, weight, eps):
        return ext.rms_norm_cuda(x, weight, eps)
