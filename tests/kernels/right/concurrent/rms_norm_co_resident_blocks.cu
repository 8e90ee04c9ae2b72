// problem: rms_norm
// assay: temp squares float32 (4 * 16)
// assay: temp gate uint32 (4)
// assay: fill gate value=0
// assay: launch rms grid=(4, 4) block=(128) args=(x, weight, y, squares, gate, eps, rows, cols)
// style: an ordinary launch of 16 blocks, which every GPU since sm_75 holds at once: four share a row and meet at a rising counter
__device__ void meet(unsigned* gate, unsigned goal)
{
    __syncthreads();
    if (threadIdx.x == 0) {
        __threadfence();
        atomicAdd(gate, 1u);
        while (*(volatile unsigned*)gate < goal) __nanosleep(32);
        __threadfence();
    }
    __syncthreads();
}

__global__ void rms(const float* x, const float* weight, float* y, float* squares, unsigned* gate, float eps, int rows, int cols)
{
    __shared__ float warps[4];
    const int p = blockIdx.x, t = threadIdx.x;
    float* mine = squares + blockIdx.y * 16;
    unsigned met = 0;
    for (int row = blockIdx.y; row < rows; row += 4, ++met) {
        const float* in = x + (size_t)row * cols;
        float s = 0.0f;
        for (int c = p * 128 + t; c < cols; c += 512) s += in[c] * in[c];
        for (int d = 16; d; d >>= 1) s += __shfl_xor_sync(~0u, s, d);
        if (t % 32 == 0) warps[t / 32] = s;
        __syncthreads();
        float* round = mine + (met & 1) * 8;  // two slots: the next round does not meet readers of this one
        if (t == 0) round[p] = warps[0] + warps[1] + warps[2] + warps[3];
        meet(gate + blockIdx.y, 4 * (met + 1));
        const float r = rsqrtf((round[0] + round[1] + round[2] + round[3]) / cols + eps);
        for (int c = p * 128 + t; c < cols; c += 512) y[(size_t)row * cols + c] = in[c] * r * weight[c];
    }
}
