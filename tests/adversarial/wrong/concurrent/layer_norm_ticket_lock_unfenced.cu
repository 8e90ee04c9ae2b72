// problem: layer_norm
// class: schedule
// race: lock
// must: anything but passed
// why: a ticket lock whose number served is a volatile word, with no fence after it is seen and none before it is raised: the sums that it guards may be old
// proof: the lock neither acquires nor releases; plain accesses may move over the volatile ones
// assay: temp lock uint32 (2 * rows)
// assay: temp sums float32 (2 * rows)
// assay: fill lock value=0
// assay: fill sums value=0
// assay: launch halves grid=(rows, 4) block=(32) args=(x, lock, sums, rows, cols)
// assay: launch apply grid=(rows) block=(64) args=(x, weight, bias, y, sums, eps, cols)

__global__ void halves(const float* x, unsigned* lock, float* sums, int rows, int cols)
{
    const int row = blockIdx.x;
    const float* in = x + (size_t)row * cols;
    float s = 0.0f, q = 0.0f, first = in[0];  // shifted by the first element, for the sake of precision
    for (int c = blockIdx.y * 32 + threadIdx.x; c < cols; c += 128) {
        const float v = in[c] - first;
        s += v;
        q += v * v;
    }
    for (int d = 16; d; d >>= 1) {
        s += __shfl_xor_sync(~0u, s, d);
        q += __shfl_xor_sync(~0u, q, d);
    }
    if (threadIdx.x == 0) {
        volatile unsigned* served = lock + 2 * row + 1;
        const unsigned mine = atomicAdd(lock + 2 * row, 1u);
        while (*served != mine) { }
        sums[2 * row] += s;
        sums[2 * row + 1] += q;
        *served = mine + 1;
    }
}

__global__ void apply(const float* x, const float* weight, const float* bias, float* y, const float* sums, float eps, int cols)
{
    const float* in = x + (size_t)blockIdx.x * cols;
    const float d = sums[2 * blockIdx.x] / cols, mean = in[0] + d;
    const float r = rsqrtf(fmaxf(sums[2 * blockIdx.x + 1] / cols - d * d, 0.0f) + eps);
    for (int c = threadIdx.x; c < cols; c += 64) y[(size_t)blockIdx.x * cols + c] = (in[c] - mean) * r * weight[c] + bias[c];
}
