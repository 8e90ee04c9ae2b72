// problem: layer_norm
// class: schedule
// race: barrier
// must: anything but passed
// why: in a hand-made grid barrier thread 0 arrives for its block without __syncthreads() before it: other warps of the block may not have stored their sums when the last block arrives
// proof: an arrival must come after all threads of the block; warps run at different speed
// assay: temp sums float32 (min(rows, 16) * 16)
// assay: temp arrived uint32 (1)
// assay: fill arrived value=0
// assay: launch ln grid=(2, min(rows, 16)) block=(128) cooperative args=(x, weight, bias, y, sums, arrived, eps, rows, cols)

__device__ void meet(unsigned* arrived, unsigned goal)
{
    if (threadIdx.x == 0) {
        __threadfence();
        atomicAdd(arrived, 1u);
        while (atomicAdd(arrived, 0u) < goal) { }
        __threadfence();
    }
    __syncthreads();
}

__global__ void ln(const float* x, const float* weight, const float* bias, float* y, float* sums, unsigned* arrived, float eps, int rows, int cols)
{
    const int t = threadIdx.x, w = t / 32, p = blockIdx.x, steps = (rows + gridDim.y - 1) / gridDim.y;
    volatile float* mine = sums + blockIdx.y * 16;
    unsigned goal = 0;
    for (int step = 0; step < steps; ++step) {
        const int row = min(step * (int)gridDim.y + (int)blockIdx.y, rows - 1);
        const bool keep = step * gridDim.y + blockIdx.y < rows;
        const float* in = x + (size_t)row * cols;
        float s = 0.0f, q = 0.0f;
        for (int c = p * 128 + t; c < cols; c += 256) s += in[c];
        for (int d = 16; d; d >>= 1) s += __shfl_xor_sync(~0u, s, d);
        if (t % 32 == 0) mine[p * 4 + w] = s;
        meet(arrived, goal += gridDim.x * gridDim.y);
        s = 0.0f;
        for (int k = 0; k < 8; ++k) s += mine[k];
        const float mean = s / cols;
        for (int c = p * 128 + t; c < cols; c += 256) q += (in[c] - mean) * (in[c] - mean);
        for (int d = 16; d; d >>= 1) q += __shfl_xor_sync(~0u, q, d);
        if (t % 32 == 0) mine[8 + p * 4 + w] = q;
        meet(arrived, goal += gridDim.x * gridDim.y);
        q = 0.0f;
        for (int k = 0; k < 8; ++k) q += mine[8 + k];
        const float r = rsqrtf(q / cols + eps);
        for (int c = p * 128 + t; keep && c < cols; c += 256) y[(size_t)row * cols + c] = (in[c] - mean) * r * weight[c] + bias[c];
    }
}
