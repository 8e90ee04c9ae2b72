# problem: scalar_multiply
# style: the scalar is kept as an attribute of the model for the call
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cuda = """
template <int THREADS> __global__ void scale(const float* x, float* y, float alpha, int64_t n)
{
    int64_t i = blockIdx.x * (int64_t)THREADS + threadIdx.x;
    if (i < n) y[i] = alpha * x[i];
}
torch::Tensor scale_cuda(torch::Tensor x, double alpha)
{
    auto y = torch::empty_like(x);
    scale<128><<<(x.numel() + 127) / 128, 128>>>(x.data_ptr<float>(), y.data_ptr<float>(), alpha, x.numel());
    return y;
}
"""
ext = load_inline(
    name="scale_attribute",
    cpp_sources="torch::Tensor scale_cuda(torch::Tensor x, double alpha);",
    cuda_sources=cuda,
    functions=["scale_cuda"],
)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.alpha = None

    def forward(self, x, alpha):
        self.alpha = float(alpha)
        return ext.scale_cuda(x.contiguous(), self.alpha)
