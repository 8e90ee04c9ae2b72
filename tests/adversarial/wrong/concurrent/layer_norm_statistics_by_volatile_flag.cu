// problem: layer_norm
// class: schedule
// race: fence
// must: anything but passed
// why: the first blocks compute mean and factor of rows and raise a volatile flag, the later ones wait for it; neither side has a fence
// proof: CUDA guide, memory fence functions, the example of writeXY and readXY: any combination of old and new may be read
// assay: temp ticket uint32 (1)
// assay: temp stats float32 (rows * 2)
// assay: temp ready uint32 (rows)
// assay: fill ticket value=0
// assay: fill ready value=0
// assay: launch ln grid=(rows * 2) block=(32) args=(x, weight, bias, y, ticket, stats, ready, eps, rows, cols)

__global__ void ln(const float* x, const float* weight, const float* bias, float* y, unsigned* ticket, float2* stats,
                   volatile unsigned* ready, float eps, int rows, int cols)
{
    const int lane = threadIdx.x;
    unsigned drawn = 0;
    if (lane == 0) drawn = atomicAdd(ticket, 1u);
    drawn = __shfl_sync(~0u, drawn, 0);
    const unsigned row = drawn % rows;
    const float* in = x + (size_t)row * cols;
    if (drawn < rows) {
        float s = 0.0f, q = 0.0f;
        for (int c = lane; c < cols; c += 32) s += in[c];
        for (int d = 16; d; d >>= 1) s += __shfl_xor_sync(~0u, s, d);
        for (int c = lane; c < cols; c += 32) q += (in[c] - s / cols) * (in[c] - s / cols);
        for (int d = 16; d; d >>= 1) q += __shfl_xor_sync(~0u, q, d);
        if (lane == 0) {
            stats[row] = make_float2(s / cols, rsqrtf(q / cols + eps));
            ready[row] = 1;
        }
    } else {
        while (!ready[row]) { }
        const float2 both = stats[row];
        for (int c = lane; c < cols; c += 32) y[(size_t)row * cols + c] = (in[c] - both.x) * both.y * weight[c] + bias[c];
    }
}
