// problem: matvec
// assay: launch gemv_cached grid=(ceil_div(m, 8)) block=(32, 8) shared=(min(k, 2048) * 4) args=(a, x, y, m, k, min(k, 2048))
// style: the vector goes through dynamic shared memory in pieces of at most 2048, eight rows a block share it
__global__ void gemv_cached(const float* a, const float* x, float* y, int m, int k, int piece)
{
    extern __shared__ float v[];
    const int row = blockIdx.x * blockDim.y + threadIdx.y;
    const int t = threadIdx.y * 32 + threadIdx.x;
    float s0 = 0.0f, s1 = 0.0f;
    for (int j0 = 0; j0 < k; j0 += piece) {
        const int len = min(piece, k - j0);
        __syncthreads();
        for (int j = t; j < len; j += 256) v[j] = x[j0 + j];
        __syncthreads();
        if (row < m) {
            const float* p = a + (size_t)row * k + j0;
            int j = threadIdx.x;
            for (; j + 32 < len; j += 64) {
                s0 += p[j] * v[j];
                s1 += p[j + 32] * v[j + 32];
            }
            if (j < len) s0 += p[j] * v[j];
        }
    }
    s0 += s1;
    for (int d = 1; d < 32; d <<= 1) s0 += __shfl_xor_sync(0xffffffffu, s0, d);
    if (row < m && threadIdx.x == 0) y[row] = s0;
}
