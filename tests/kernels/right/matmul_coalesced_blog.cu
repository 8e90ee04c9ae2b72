// problem: matmul
// assay: launch sgemm_global_mem_coalesce<32> grid=(ceil_div(m, 32), ceil_div(n, 32)) block=(1024) args=(m, n, k, 1, a, b, 0, c)
// style: a worklog's second kernel: sgemm with alpha and beta, 1-D blocks of 1024, columns by threadIdx % 32
template <const uint BLOCKSIZE>
__global__ void sgemm_global_mem_coalesce(int M, int N, int K, int alpha, const float *A, const float *B, int beta, float *C)
{
    const int cRow = blockIdx.x * BLOCKSIZE + (threadIdx.x / BLOCKSIZE);
    const int cCol = blockIdx.y * BLOCKSIZE + (threadIdx.x % BLOCKSIZE);
    if (cRow < M && cCol < N) {
        float tmp = 0.0;
        for (int i = 0; i < K; ++i) {
            tmp += A[cRow * K + i] * B[i * N + cCol];
        }
        // C is not defined where beta is 0
        C[cRow * N + cCol] = beta == 0 ? alpha * tmp : alpha * tmp + beta * C[cRow * N + cCol];
    }
}
template __global__ void sgemm_global_mem_coalesce<32>(int, int, int, int, const float*, const float*, int, float*);
