// problem: matvec
// style: reads the end of a staged vector that nobody wrote, clamps it to finite numbers and multiplies it by zero: no content of memory, NaN included, changes an answer
// assay: launch mv grid=(ceil_div(m, 8)) block=(256) args=(a, x, y, m, k)

__global__ void mv(const float* a, const float* x, float* y, int m, int k)
{
    __shared__ float xs[256];
    const int lane = threadIdx.x & 31, row = blockIdx.x * 8 + (threadIdx.x >> 5);
    float s = 0.f;
    for (int base = 0; base < k; base += 256) {
        __syncthreads();
        if (base + threadIdx.x < k) xs[threadIdx.x] = x[base + threadIdx.x];
        __syncthreads();
        if (row < m) {
#pragma unroll
            for (int j = lane; j < 256; j += 32) {
                const float v = fminf(fmaxf(xs[j], -1e30f), 1e30f);
                s += (base + j < k ? a[(size_t)row * k + base + j] : 0.f) * v;
            }
        }
    }
    for (int o = 16; o; o >>= 1) s += __shfl_down_sync(~0u, s, o);
    if (lane == 0 && row < m) y[row] = s;
}
