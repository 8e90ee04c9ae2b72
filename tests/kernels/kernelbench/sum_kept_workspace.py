# problem: reduce_sum
# style: a workspace that forward makes once and keeps in the model
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cuda = """
__global__ void partial_sums(const float* x, float* partial, int n)
{
    float sum = 0.f;
    for (int i = blockIdx.x * 32 + threadIdx.x; i < n; i += gridDim.x * 32) sum += x[i];
    for (int o = 16; o; o /= 2) sum += __shfl_xor_sync(~0u, sum, o);
    if (threadIdx.x == 0) partial[blockIdx.x] = sum;
}
torch::Tensor sum_cuda(torch::Tensor x, torch::Tensor partial)
{
    auto total = torch::empty({1}, x.options());
    partial_sums<<<partial.numel(), 32>>>(x.data_ptr<float>(), partial.data_ptr<float>(), x.numel());
    partial_sums<<<1, 32>>>(partial.data_ptr<float>(), total.data_ptr<float>(), partial.numel());
    return total;
}
"""
ext = load_inline(
    name="sum_kept_workspace",
    cpp_sources="torch::Tensor sum_cuda(torch::Tensor x, torch::Tensor partial);",
    cuda_sources=cuda,
    functions=["sum_cuda"],
)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.partial = None

    def forward(self, x):
        if self.partial is None:
            self.partial = torch.zeros(256, device=x.device, dtype=torch.float32)
        return ext.sum_cuda(x, self.partial)
