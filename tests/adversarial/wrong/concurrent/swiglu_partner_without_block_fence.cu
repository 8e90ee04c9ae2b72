// problem: swiglu
// class: schedule
// race: fence
// must: anything but passed
// why: a warp leaves SiLU values in shared memory and raises a volatile flag, its partner spins and multiplies; __threadfence_block() is missing on both sides, and __syncwarp() before the flag
// proof: PTX: plain st.shared and st.volatile.shared to different words are not ordered for another warp
// assay: launch swiglu grid=(ceil_div(rows * cols, 64)) block=(128) args=(gate, up, y, rows * cols)

__global__ void swiglu(const float* gate, const float* up, float* y, int total)
{
    __shared__ float act[2][32];
    __shared__ volatile int ready[2];
    const int lane = threadIdx.x & 31, pair = threadIdx.x >> 6, i = blockIdx.x * 64 + pair * 32 + lane;
    if (threadIdx.x < 2) ready[threadIdx.x] = 0;
    __syncthreads();
    if ((threadIdx.x >> 5 & 1) == 0) {
        const float g = i < total ? gate[i] : 0.0f;
        act[pair][lane] = g / (1.0f + expf(-g));
        if (lane == 0) ready[pair] = 1;
    } else {
        while (ready[pair] == 0) { }
        if (i < total) y[i] = act[pair][lane] * up[i];
    }
}
