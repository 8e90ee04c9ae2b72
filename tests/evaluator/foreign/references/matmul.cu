// assay: launch matmul grid=(ceil_div(M * N, 128)) block=(128) args=(A, B, out, M, N, K)
#ifndef FACTOR
#define FACTOR(value) (value)
#endif
__global__ void matmul(const float* A, const float* B, float* out, int M, int N, int K)
{
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= M * N) return;
    float sum = 0.0f;
    for (int k = 0; k < K; k++) sum += FACTOR(A[at / N * K + k]) * FACTOR(B[k * N + at % N]);
    out[at] = sum;
}
