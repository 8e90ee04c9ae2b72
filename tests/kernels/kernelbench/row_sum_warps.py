# problem: row_sum
# style: a warp for each row, by shuffles
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cuda = """
__global__ void row_sums(const float* x, float* y, int rows, int cols)
{
    int row = blockIdx.x * 4 + threadIdx.x / 32, lane = threadIdx.x % 32;
    if (row >= rows) return;
    float sum = 0.f;
    for (int c = lane; c < cols; c += 32) sum += x[(size_t)row * cols + c];
    for (int o = 16; o; o >>= 1) sum += __shfl_down_sync(0xffffffff, sum, o);
    if (lane == 0) y[row] = sum;
}
torch::Tensor row_sum_cuda(torch::Tensor x)
{
    auto y = torch::empty({x.size(0)}, x.options());
    row_sums<<<(x.size(0) + 3) / 4, 128>>>(x.data_ptr<float>(), y.data_ptr<float>(), x.size(0), x.size(1));
    return y;
}
"""
ext = load_inline(
    name="row_sum_warps",
    cpp_sources="torch::Tensor row_sum_cuda(torch::Tensor x);",
    cuda_sources=cuda,
    functions=["row_sum_cuda"],
)


class ModelNew(nn.Module):
    def forward(self, x):
        return ext.row_sum_cuda(x)
