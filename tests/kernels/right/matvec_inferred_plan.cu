// problem: matvec
// style: the plan is inferred (one thread a row); names M, N for the sizes; four accumulators over a loop unrolled by hand
__global__ void matrix_vector(const float* __restrict__ mat, const float* __restrict__ vec, float* __restrict__ res, int M, int N)
{
    const int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row < M) {
        const float* r = mat + (size_t)row * N;
        float total = 0;
        for (int begin = 0; begin < N; begin += 1024) {     // short chains keep long rows exact
            const int end = min(N, begin + 1024);
            float a0 = 0, a1 = 0, a2 = 0, a3 = 0;
            int j = begin;
            for (; j + 3 < end; j += 4) {
                a0 += r[j] * vec[j];
                a1 += r[j + 1] * vec[j + 1];
                a2 += r[j + 2] * vec[j + 2];
                a3 += r[j + 3] * vec[j + 3];
            }
            for (; j < end; ++j) a0 += r[j] * vec[j];
            total += (a0 + a1) + (a2 + a3);
        }
        res[row] = total;
    }
}
