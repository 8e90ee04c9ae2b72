# problem: matmul
# style: a template of the tile, launched by a helper, TORCH_CHECK of the sizes
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cuda = """
template <int T> __global__ void product(const float* a, const float* b, float* c, int m, int n, int k)
{
    __shared__ float left[T][T], right[T][T];
    int row = blockIdx.y * T + threadIdx.y, col = blockIdx.x * T + threadIdx.x;
    float sum = 0.f;
    for (int s = 0; s < k; s += T) {
        left[threadIdx.y][threadIdx.x] = row < m && s + threadIdx.x < k ? a[(size_t)row * k + s + threadIdx.x] : 0.f;
        right[threadIdx.y][threadIdx.x] = s + threadIdx.y < k && col < n ? b[(size_t)(s + threadIdx.y) * n + col] : 0.f;
        __syncthreads();
        for (int i = 0; i < T; i++) sum += left[threadIdx.y][i] * right[i][threadIdx.x];
        __syncthreads();
    }
    if (row < m && col < n) c[(size_t)row * n + col] = sum;
}
template <int T> void launch(torch::Tensor a, torch::Tensor b, torch::Tensor c)
{
    product<T><<<dim3((c.size(1) + T - 1) / T, (c.size(0) + T - 1) / T), dim3(T, T)>>>(
        a.data_ptr<float>(), b.data_ptr<float>(), c.data_ptr<float>(), c.size(0), c.size(1), a.size(1));
}
torch::Tensor matmul_cuda(torch::Tensor a, torch::Tensor b)
{
    TORCH_CHECK(a.size(1) == b.size(0), "inner sizes");
    auto c = torch::empty({a.size(0), b.size(1)}, a.options());
    if (a.size(0) >= 64) launch<16>(a, b, c);
    else launch<8>(a, b, c);
    return c;
}
"""
ext = load_inline(
    name="matmul_tiles_template",
    cpp_sources="torch::Tensor matmul_cuda(torch::Tensor a, torch::Tensor b);",
    cuda_sources=cuda,
    functions=["matmul_cuda"],
)


class ModelNew(nn.Module):
    def forward(self, a, b):
        return ext.matmul_cuda(a, b)
