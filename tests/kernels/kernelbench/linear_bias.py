# problem: references/linear_bias.py
# style: the parameters of nn.Linear by their names, made with what the reference says
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = """
__global__ void linear_relu(const float* x, const float* w, const float* b, float* y, int m, int n, int k)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= m * n) return;
    float sum = b[i % n];
    for (int j = 0; j < k; j++) sum += x[(i / n) * k + j] * w[(i % n) * k + j];
    y[i] = fmaxf(sum, 0.f);
}
torch::Tensor linear_relu_cuda(torch::Tensor x, torch::Tensor w, torch::Tensor b)
{
    const int m = x.size(0), k = x.size(1), n = w.size(0);
    auto y = torch::empty({m, n}, x.options());
    linear_relu<<<(m * n + 127) / 128, 128>>>(x.data_ptr<float>(), w.data_ptr<float>(), b.data_ptr<float>(), y.data_ptr<float>(), m, n, k);
    return y;
}
"""
ext = load_inline(
    name="linear_relu",
    cpp_sources="torch::Tensor linear_relu_cuda(torch::Tensor x, torch::Tensor w, torch::Tensor b);",
    cuda_sources=source,
    functions=["linear_relu_cuda"],
)


class ModelNew(nn.Module):
    def __init__(self, in_features, out_features):
        super().__init__()
        self.linear = nn.Linear(in_features, out_features)

    def forward(self, x):
        return ext.linear_relu_cuda(x, self.linear.weight, self.linear.bias)
