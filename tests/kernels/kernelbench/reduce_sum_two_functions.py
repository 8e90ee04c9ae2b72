# problem: reduce_sum
# style: the result of one function is given to another, own PYBIND11_MODULE in cpp_sources
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cuda_source = """
__global__ void sums(const float* x, float* y, int n) {
    __shared__ float held[256];
    float sum = 0;
    for (int i = blockIdx.x * 256 + threadIdx.x; i < n; i += gridDim.x * 256) sum += x[i];
    held[threadIdx.x] = sum;
    __syncthreads();
    for (int h = 128; h; h /= 2) {
        if (threadIdx.x < h) held[threadIdx.x] += held[threadIdx.x + h];
        __syncthreads();
    }
    if (!threadIdx.x) y[blockIdx.x] = held[0];
}
torch::Tensor sum_blocks(torch::Tensor x, int blocks) {
    auto y = torch::empty({blocks}, x.options());
    sums<<<blocks, 256>>>(x.data_ptr<float>(), y.data_ptr<float>(), x.numel());
    return y;
}
"""
cpp_source = """
#include <torch/extension.h>
torch::Tensor sum_blocks(torch::Tensor x, int blocks);
PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
    m.def("sum_blocks", &sum_blocks, "sums of blocks");
}
"""
sums = load_inline(name="sums", cpp_sources=[cpp_source], cuda_sources=[cuda_source])


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = 32

    def forward(self, x):
        return sums.sum_blocks(sums.sum_blocks(x, self.blocks), 1)
