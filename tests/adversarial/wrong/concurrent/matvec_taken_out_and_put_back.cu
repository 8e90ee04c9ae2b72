// problem: matvec
// class: schedule
// race: lost update
// must: anything but passed
// why: a block takes the sum out by atomicExch(.., 0), adds, and puts it back by atomicExch; what another block put there meanwhile is returned by the second exchange and thrown away
// proof: two blocks that both take before either puts back: the loop until the returned value is 0 is missing
// assay: fill y value=0
// assay: launch mv grid=(ceil_div(m, 4), 4) block=(32, 4) args=(a, x, y, m, k)

__global__ void mv(const float* a, const float* x, float* y, int m, int k)
{
    const int row = blockIdx.x * 4 + threadIdx.y;
    if (row >= m) return;
    float s = 0.0f;
    for (int j = blockIdx.y * 32 + threadIdx.x; j < k; j += 128) s += a[(size_t)row * k + j] * x[j];
    for (int d = 16; d; d >>= 1) s += __shfl_down_sync(~0u, s, d);
    if (threadIdx.x == 0) {
        const float old = atomicExch(&y[row], 0.0f);
        atomicExch(&y[row], old + s);
    }
}
