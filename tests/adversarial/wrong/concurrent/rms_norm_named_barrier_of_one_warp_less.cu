// problem: rms_norm
// class: schedule
// race: barrier
// must: anything but passed
// why: four warps share a row, but the named barrier is told 96 and the fourth warp leaves it out: it opens when three have come, so the sum of the fourth may be missing, and the fourth waits for nobody
// proof: PTX bar.sync: the barrier completes when the count is reached; 128 is needed
// assay: launch rms grid=(rows) block=(128) args=(x, weight, y, eps, cols)
#define ROW_BARRIER(count) asm volatile("barrier.sync 1, %0;" ::"n"(count) : "memory")

__global__ void rms(const float* x, const float* weight, float* y, float eps, int cols)
{
    __shared__ float part[4];
    const int t = threadIdx.x, w = t >> 5;
    const float* in = x + (size_t)blockIdx.x * cols;
    float s = 0.0f;
    for (int c = t; c < cols; c += 128) s += in[c] * in[c];
    for (int d = 16; d; d >>= 1) s += __shfl_down_sync(~0u, s, d);
    if ((t & 31) == 0) part[w] = s;
    // the last warp has the shortest share and is always there in time
    if (w < 3) ROW_BARRIER(96);
    const float r = rsqrtf((part[0] + part[1] + part[2] + part[3]) / cols + eps);
    for (int c = t; c < cols; c += 128) y[(size_t)blockIdx.x * cols + c] = in[c] * r * weight[c];
}
