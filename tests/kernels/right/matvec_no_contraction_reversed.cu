// problem: matvec
// style: --fmad=false, products and sums apart, from the last column to the first, four accumulators a thread and a tree over 64
// flags: --fmad=false
// assay: launch mv_back grid=(m) block=(64) args=(a, x, y, k)
__global__ void mv_back(const float* a, const float* x, float* y, int k)
{
    __shared__ float s[64];
    const float* row = a + (size_t)blockIdx.x * k;
    float r[4] = {};
    int turn = 0;
    for (int j = k - 1 - (int)threadIdx.x; j >= 0; j -= 64) r[turn++ & 3] += row[j] * x[j];
    s[threadIdx.x] = (r[0] + r[2]) + (r[1] + r[3]);
    for (int d = 32; d; d /= 2) {
        __syncthreads();
        if (threadIdx.x < d) s[threadIdx.x] += s[threadIdx.x + d];
    }
    if (threadIdx.x == 0) y[blockIdx.x] = s[0];
}
