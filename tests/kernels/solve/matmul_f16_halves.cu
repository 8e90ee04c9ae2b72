// problem: matmul_f16
// style: halves, sums in float
#include <cuda_fp16.h>
#include <cuda_runtime.h>

__global__ void matmul(const half* A, const half* B, half* C, int M, int N, int K)
{
    int column = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y * blockDim.y + threadIdx.y;
    if (row >= M || column >= N) return;
    float sum = 0.0f;
    for (int i = 0; i < K; ++i) sum += __half2float(A[row * K + i]) * __half2float(B[i * N + column]);
    C[row * N + column] = __float2half(sum);
}

extern "C" void solve(const half* A, const half* B, half* C, int M, int N, int K)
{
    dim3 block(32, 8);
    dim3 grid((N + block.x - 1) / block.x, (M + block.y - 1) / block.y);
    matmul<<<grid, block>>>(A, B, C, M, N, K);
}
