# problem: saxpy
# style: views in Python before, a list of tensors passed
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cuda = """
#include <vector>
__global__ void saxpy(const float* x, const float* y, float* out, float alpha, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = fmaf(alpha, x[i], y[i]);
}
torch::Tensor saxpy_cuda(std::vector<torch::Tensor> both, double alpha)
{
    auto out = torch::empty_like(both[0]);
    saxpy<<<(out.numel() + 255) / 256, 256>>>(both[0].data_ptr<float>(), both[1].data_ptr<float>(), out.data_ptr<float>(), alpha, out.numel());
    return out;
}
"""
ext = load_inline(
    name="saxpy_flat_views",
    cpp_sources="torch::Tensor saxpy_cuda(std::vector<torch::Tensor> both, double alpha);",
    cuda_sources=cuda,
    functions=["saxpy_cuda"],
)


class ModelNew(nn.Module):
    def forward(self, x, y, alpha):
        return ext.saxpy_cuda([x.view(-1), y.flatten()], alpha)
