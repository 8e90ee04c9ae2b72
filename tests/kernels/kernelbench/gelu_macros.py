# problem: gelu
# style: macros that check, constants by constexpr
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cuda = """
#define CHECK(x) TORCH_CHECK(x.is_cuda() && x.is_contiguous(), #x " must be a contiguous CUDA tensor")
constexpr float ROOT_HALF = 0.70710678118654752440f;
__device__ inline float gelu(float x) { return 0.5f * x * (1.0f + erff(x * ROOT_HALF)); }
__global__ void gelu_kernel(const float* __restrict__ x, float* __restrict__ y, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = gelu(x[i]);
}
at::Tensor gelu_cuda(at::Tensor x)
{
    CHECK(x);
    at::Tensor y = at::empty_like(x);
    const int n = static_cast<int>(x.numel()), block = 512;
    gelu_kernel<<<(n + block - 1) / block, block>>>(x.data_ptr<float>(), y.data_ptr<float>(), n);
    return y;
}
"""
ext = load_inline(
    name="gelu_macros",
    cpp_sources="at::Tensor gelu_cuda(at::Tensor x);",
    cuda_sources=cuda,
    functions=["gelu_cuda"],
)


class ModelNew(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.gelu = ext

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.gelu.gelu_cuda(x)
