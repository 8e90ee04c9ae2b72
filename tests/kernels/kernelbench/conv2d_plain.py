# problem: conv2d
# style: a thread for each element of the output, offsets by packed accessors
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cuda = """
using Tensor4 = torch::PackedTensorAccessor32<float, 4, torch::RestrictPtrTraits>;
__global__ void conv(Tensor4 x, Tensor4 w, Tensor4 y)
{
    int col = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y, image = blockIdx.z / w.size(0), out = blockIdx.z % w.size(0);
    if (col >= x.size(3)) return;
    float sum = 0.f;
    for (int c = 0; c < x.size(1); c++)
        for (int i = 0; i < 3; i++)
            for (int j = 0; j < 3; j++) {
                int r = row + i - 1, s = col + j - 1;
                if (r >= 0 && r < x.size(2) && s >= 0 && s < x.size(3)) sum += x[image][c][r][s] * w[out][c][i][j];
            }
    y[image][out][row][col] = sum;
}
torch::Tensor conv_cuda(torch::Tensor x, torch::Tensor w)
{
    auto y = torch::empty({x.size(0), w.size(0), x.size(2), x.size(3)}, x.options());
    conv<<<dim3((x.size(3) + 31) / 32, x.size(2), x.size(0) * w.size(0)), 32>>>(
        x.packed_accessor32<float, 4, torch::RestrictPtrTraits>(), w.packed_accessor32<float, 4, torch::RestrictPtrTraits>(),
        y.packed_accessor32<float, 4, torch::RestrictPtrTraits>());
    return y;
}
"""
ext = load_inline(
    name="conv2d_plain",
    cpp_sources="torch::Tensor conv_cuda(torch::Tensor x, torch::Tensor w);",
    cuda_sources=cuda,
    functions=["conv_cuda"],
)


class ModelNew(nn.Module):
    def forward(self, x, weight):
        return ext.conv_cuda(x, weight)
