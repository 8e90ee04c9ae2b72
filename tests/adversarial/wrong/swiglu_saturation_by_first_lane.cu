// problem: swiglu
// class: contents
// must: anything but passed
// why: lane 0's gate decides for its warp whether gates are saturated and silu is g or 0: wrong where a large gate stands first among small ones
// proof: gates of 1 but for a 100 at each multiple of 32: silu(1) becomes 1 instead of 0.731
// assay: launch swiglu grid=(ceil_div(rows * cols, 512)) block=(256) args=(gate, up, y, rows * cols)

__device__ __forceinline__ float silu(float g, bool saturated) { return saturated ? fmaxf(g, 0.f) : __fdividef(g, 1.f + __expf(-g)); }

__global__ void swiglu(const float* gate, const float* up, float* y, int count)
{
    for (int i = blockIdx.x * 512 + threadIdx.x; i < min(count, (int)(blockIdx.x + 1) * 512); i += 256) {
        const int first = i & ~31;
        const bool saturated = fabsf(__ldg(gate + first)) > 60.f;  // a broadcast load, one branch for the warp
        y[i] = silu(gate[i], saturated) * up[i];
    }
}
