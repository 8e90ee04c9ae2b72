# problem: matmul
# style: allocated in Python with the type of an input, zeros that a kernel adds to
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

ext = load_inline(
    name="matmul",
    cpp_sources="void matmul_add(torch::Tensor a, torch::Tensor b, torch::Tensor c);",
    cuda_sources="""
__global__ void product(const float* a, const float* b, float* c, int m, int n, int k) {
    int col = blockIdx.x * 16 + threadIdx.x, row = blockIdx.y * 16 + threadIdx.y;
    if (row >= m || col >= n) return;
    float sum = 0.f;
    for (int i = 0; i < k; i++) sum += a[(size_t)row * k + i] * b[(size_t)i * n + col];
    c[(size_t)row * n + col] += sum;
}
void matmul_add(torch::Tensor a, torch::Tensor b, torch::Tensor c) {
    int m = a.size(0), k = a.size(1), n = b.size(1);
    product<<<dim3((n + 15) / 16, (m + 15) / 16), dim3(16, 16)>>>(a.data_ptr<float>(), b.data_ptr<float>(), c.data_ptr<float>(), m, n, k);
}
""",
    functions=["matmul_add"],
)


class ModelNew(nn.Module):
    def forward(self, A: torch.Tensor, B: torch.Tensor) -> torch.Tensor:
        C = torch.zeros((A.shape[0], B.shape[1]), device=A.device, dtype=A.dtype)
        ext.matmul_add(A, B, C)
        return C
