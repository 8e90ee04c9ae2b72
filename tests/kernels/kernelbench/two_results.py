# problem: references/two_results.py
# style: two results, taken apart and given back as a tuple
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cuda = """
#include <vector>
__global__ void both(const float* x, const float* y, float* sum, float* product, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) sum[i] = x[i] + y[i], product[i] = x[i] * y[i];
}
std::vector<torch::Tensor> both_cuda(torch::Tensor x, torch::Tensor y) {
    auto sum = torch::empty_like(x), product = torch::empty_like(x);
    both<<<(x.numel() + 63) / 64, 64>>>(x.data_ptr<float>(), y.data_ptr<float>(), sum.data_ptr<float>(), product.data_ptr<float>(), x.numel());
    return {sum, product};
}
"""
ext = load_inline(
    "both", "std::vector<torch::Tensor> both_cuda(torch::Tensor x, torch::Tensor y);", cuda, functions=["both_cuda"]
)


class ModelNew(nn.Module):
    def forward(self, x, y):
        total, product = ext.both_cuda(x, y)
        return total, product
