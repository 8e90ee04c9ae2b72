// problem: row_sum
// assay: launch last_warp grid=(rows) block=(256) args=(x, y, cols)
// style: no barrier at the end: the warp that finds seven others done adds up; shared counter by atom.acq_rel.cta
__global__ void last_warp(const float* x, float* y, int cols)
{
    __shared__ float sums[8];
    __shared__ unsigned done;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    if (threadIdx.x == 0) done = 0;
    __syncthreads();
    float s = 0.0f;
    for (int c = threadIdx.x; c < cols; c += 256) s += x[(size_t)blockIdx.x * cols + c];
    for (int d = 16; d; d >>= 1) s += __shfl_down_sync(~0u, s, d);
    unsigned before = 0;
    if (lane == 0) {
        sums[warp] = s;
        asm volatile("atom.acq_rel.cta.shared.add.u32 %0, [%1], 1;"
                     : "=r"(before) : "r"((unsigned)__cvta_generic_to_shared(&done)) : "memory");
        if (before == 7) {
            for (int w = 1; w < 8; ++w) sums[0] += sums[w];
            y[blockIdx.x] = sums[0];
        }
    }
}
