# problem: references/scaled_norm.py
# style: a parameter under another name, found by its shape; a number that the model keeps
import torch
from torch.nn import Module, Parameter
from torch.utils.cpp_extension import load_inline

ext = load_inline(
    name="norm",
    cpp_sources="torch::Tensor norm_cuda(torch::Tensor x, torch::Tensor scale, double eps);",
    cuda_sources="""
__global__ void norm(const float* x, const float* scale, float* y, int n, float eps) {
    float sum = 0.f;
    for (int i = threadIdx.x; i < n; i += 32) sum += x[blockIdx.x * n + i] * x[blockIdx.x * n + i];
    for (int o = 16; o; o /= 2) sum += __shfl_xor_sync(0xffffffff, sum, o);
    for (int i = threadIdx.x; i < n; i += 32) y[blockIdx.x * n + i] = x[blockIdx.x * n + i] * rsqrtf(sum / n + eps) * scale[i];
}
torch::Tensor norm_cuda(torch::Tensor x, torch::Tensor scale, double eps) {
    auto y = torch::empty_like(x);
    norm<<<x.size(0), 32>>>(x.data_ptr<float>(), scale.data_ptr<float>(), y.data_ptr<float>(), (int)x.size(1), (float)eps);
    return y;
}
""",
    functions=["norm_cuda"],
)


class ModelNew(Module):
    def __init__(self, features, eps=1e-5):
        super().__init__()
        self.eps = eps
        self.gamma = Parameter(torch.ones(features))

    def forward(self, x):
        return ext.norm_cuda(x, self.gamma, self.eps)
