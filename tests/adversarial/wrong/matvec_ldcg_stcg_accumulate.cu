// problem: matvec
// class: schedule
// must: anything but passed
// why: two blocks for each row add their half by __ldcg and __stcg, which skip the L1 but are no atomic: if both read before one writes, a half is lost
// proof: a block of gridDim.y = 1 that reads y[row] before its sibling writes it
// assay: fill y value=0
// assay: launch mv grid=(ceil_div(m, 8), 2) block=(32, 8) args=(a, x, y, m, k)

__global__ void mv(const float* a, const float* x, float* y, int m, int k)
{
    const int row = blockIdx.x * 8 + threadIdx.y, lane = threadIdx.x;
    if (row >= m) return;
    const int half = (k + 1) / 2, begin = blockIdx.y * half, end = min(begin + half, k);
    float s = 0.f;
    for (int j = begin + lane; j < end; j += 32) s += a[(size_t)row * k + j] * x[j];
    for (int o = 16; o; o >>= 1) s += __shfl_down_sync(~0u, s, o);
    if (lane == 0) __stcg(y + row, __ldcg(y + row) + s);
}
