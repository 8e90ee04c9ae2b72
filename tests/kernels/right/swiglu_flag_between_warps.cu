// problem: swiglu
// assay: launch swiglu_warps grid=(ceil_div(rows * cols, 128)) block=(256) args=(gate, up, y, rows * cols)
// style: warps in pairs: one computes SiLU and raises a volatile flag behind a fence, its partner spins, then multiplies
__global__ void swiglu_warps(const float* gate, const float* up, float* y, int total)
{
    __shared__ volatile float act[4][32];
    __shared__ volatile int ready[4];
    const int lane = threadIdx.x & 31, pair = threadIdx.x >> 6, second = threadIdx.x >> 5 & 1;
    if (threadIdx.x < 4) ready[threadIdx.x] = 0;
    __syncthreads();
    const int i = blockIdx.x * 128 + pair * 32 + lane;
    if (!second) {
        const float g = i < total ? gate[i] : 0.0f;
        act[pair][lane] = g / (1.0f + expf(-g));
        __threadfence_block();
        __syncwarp();
        if (lane == 0) ready[pair] = 1;
    } else {
        const float u = i < total ? up[i] : 0.0f;
        while (ready[pair] == 0) { }
        __threadfence_block();
        if (i < total) y[i] = act[pair][lane] * u;
    }
}
