// problem: swiglu
// class: schedule
// race: divergence
// must: anything but passed
// why: lane 0 of a warp draws the next piece and leaves its number in shared memory, the other lanes read it in the next statement, without __syncwarp() before or after
// proof: a lane that reads before lane 0 has written works on the old piece, and leaves the new one out
// assay: temp next uint32 (1)
// assay: fill next value=0
// assay: launch swiglu grid=(48) block=(128) args=(gate, up, y, next, rows * cols)

__global__ void swiglu(const float* gate, const float* up, float* y, unsigned* next, int total)
{
    __shared__ volatile int piece[4];
    const int lane = threadIdx.x & 31, w = threadIdx.x >> 5;
    for (;;) {
        if (lane == 0) piece[w] = (int)atomicAdd(next, 64u);
        const int from = piece[w];
        if (from >= total) break;
        for (int i = from + lane; i < min(total, from + 64); i += 32) y[i] = gate[i] / (1.0f + expf(-gate[i])) * up[i];
    }
}
