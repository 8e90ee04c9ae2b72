# problem: transpose
# style: the text is made by an f-string, so that no line of it stands in the file
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

TILE = 16
source = f"""
__global__ void turn(const float* x, float* y, int rows, int cols) {{
    __shared__ float tile[{TILE}][{TILE} + 1];
    int col = blockIdx.x * {TILE} + threadIdx.x, row = blockIdx.y * {TILE} + threadIdx.y;
    if (row < rows && col < cols) tile[threadIdx.y][threadIdx.x] = x[(size_t)row * cols + col];
    __syncthreads();
    col = blockIdx.y * {TILE} + threadIdx.x, row = blockIdx.x * {TILE} + threadIdx.y;
    if (row < cols && col < rows) y[(size_t)row * rows + col] = tile[threadIdx.x][threadIdx.y];
}}
torch::Tensor turned(torch::Tensor x) {{
    const int rows = x.size(0), cols = x.size(1);
    auto y = torch::empty({{cols, rows}}, x.options());
    turn<<<dim3((cols + {TILE - 1}) / {TILE}, (rows + {TILE - 1}) / {TILE}), dim3({TILE}, {TILE})>>>(x.data_ptr<float>(), y.data_ptr<float>(), rows, cols);
    return y;
}}
"""
ext = load_inline("turned", "torch::Tensor turned(torch::Tensor x);", source, ["turned"])


class ModelNew(nn.Module):
    def forward(self, matrix):
        return ext.turned(matrix)
