// problem: matmul_f16
// assay: launch gemm_fp16 grid=(ceil_div(n, 32), ceil_div(m, 32)) block=(32, 32) args=(a, b, c, m, n, k, 1.0, 0.0)
// style: an online judge's fp16 GEMM with alpha and beta: 32 x 32 tiles kept as float, blocks of 1024 threads
#include <cuda_fp16.h>
#define TILE 32

__global__ void gemm_fp16(const half* A, const half* B, half* C, int M, int N, int K, float alpha, float beta) {
    __shared__ float As[TILE][TILE];
    __shared__ float Bs[TILE][TILE];
    int row = blockIdx.y * TILE + threadIdx.y;
    int col = blockIdx.x * TILE + threadIdx.x;
    float acc = 0.0f;
    for (int t = 0; t < (K + TILE - 1) / TILE; t++) {
        int aCol = t * TILE + threadIdx.x;
        int bRow = t * TILE + threadIdx.y;
        As[threadIdx.y][threadIdx.x] = (row < M && aCol < K) ? __half2float(A[row * K + aCol]) : 0.0f;
        Bs[threadIdx.y][threadIdx.x] = (bRow < K && col < N) ? __half2float(B[bRow * N + col]) : 0.0f;
        __syncthreads();
        #pragma unroll
        for (int i = 0; i < TILE; i++) acc += As[threadIdx.y][i] * Bs[i][threadIdx.x];
        __syncthreads();
    }
    if (row < M && col < N) {
        float result = alpha * acc;
        if (beta != 0.0f) result += beta * __half2float(C[row * N + col]);
        C[row * N + col] = __float2half(result);
    }
}
