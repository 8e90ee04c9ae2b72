// problem: matmul
// assay: launch sgemm_2d<64, 64, 8, 8, 8> grid=(ceil_div(n, 64), ceil_div(m, 64)) block=(64) args=(m, n, k, a, b, c)
// style: a worklog's two-dimensional block tiling: BM BN BK TM TN, regM and regN, 8 x 8 results a thread
template <int BM, int BN, int BK, int TM, int TN>
__global__ void __launch_bounds__((BM * BN) / (TM * TN), 1) sgemm_2d(int M, int N, int K, const float* A, const float* B, float* C)
{
    const int cRow = blockIdx.y * BM, cCol = blockIdx.x * BN;
    constexpr int threads = (BM * BN) / (TM * TN);
    const int threadCol = threadIdx.x % (BN / TN), threadRow = threadIdx.x / (BN / TN);
    __shared__ float As[BM * BK];
    __shared__ float Bs[BK * BN];
    float threadResults[TM * TN] = {0.0f};
    float regM[TM] = {0.0f};
    float regN[TN] = {0.0f};

    for (int bkIdx = 0; bkIdx < K; bkIdx += BK) {
        for (int i = threadIdx.x; i < BM * BK; i += threads) {
            const int r = i / BK, c = i % BK;
            As[i] = cRow + r < M && bkIdx + c < K ? A[(size_t)(cRow + r) * K + bkIdx + c] : 0.0f;
        }
        for (int i = threadIdx.x; i < BK * BN; i += threads) {
            const int r = i / BN, c = i % BN;
            Bs[i] = bkIdx + r < K && cCol + c < N ? B[(size_t)(bkIdx + r) * N + cCol + c] : 0.0f;
        }
        __syncthreads();
        for (int dotIdx = 0; dotIdx < BK; ++dotIdx) {
#pragma unroll
            for (int i = 0; i < TM; ++i) regM[i] = As[(threadRow * TM + i) * BK + dotIdx];
#pragma unroll
            for (int i = 0; i < TN; ++i) regN[i] = Bs[dotIdx * BN + threadCol * TN + i];
#pragma unroll
            for (int i = 0; i < TM; ++i)
#pragma unroll
                for (int j = 0; j < TN; ++j) threadResults[i * TN + j] += regM[i] * regN[j];
        }
        __syncthreads();
    }
    for (int i = 0; i < TM; ++i)
        for (int j = 0; j < TN; ++j) {
            const int r = cRow + threadRow * TM + i, c = cCol + threadCol * TN + j;
            if (r < M && c < N) C[(size_t)r * N + c] = threadResults[i * TN + j];
        }
}
template __global__ void sgemm_2d<64, 64, 8, 8, 8>(int, int, int, const float*, const float*, float*);
