# problem: references/scaled_by_shape.py
# style: a parameter's shape follows from a size that is made smaller, and a mask is of type bool
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = """
__global__ void scaled(const float* x, const bool* mask, const float* scale, float* y, int count, int features)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) y[i] = mask[i] ? x[i] * scale[i % features] : 0.f;
}
torch::Tensor scaled_cuda(torch::Tensor x, torch::Tensor mask, torch::Tensor scale)
{
    TORCH_CHECK(mask.scalar_type() == torch::kBool, "the mask is boolean");
    auto y = torch::empty_like(x);
    int count = x.numel();
    scaled<<<(count + 255) / 256, 256>>>(
        x.data_ptr<float>(), mask.data_ptr<bool>(), scale.data_ptr<float>(), y.data_ptr<float>(), count, scale.numel());
    return y;
}
"""
ext = load_inline(
    name="scaled",
    cpp_sources="torch::Tensor scaled_cuda(torch::Tensor x, torch::Tensor mask, torch::Tensor scale);",
    cuda_sources=source,
    functions=["scaled_cuda"],
)


class ModelNew(nn.Module):
    def __init__(self, features, scale_shape):
        super().__init__()
        self.scale = nn.Parameter(torch.randn(scale_shape))

    def forward(self, x, mask):
        return ext.scaled_cuda(x, mask, self.scale)
