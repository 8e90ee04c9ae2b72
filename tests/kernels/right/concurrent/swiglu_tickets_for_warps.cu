// problem: swiglu
// assay: temp next uint32 (1)
// assay: fill next value=0
// assay: launch swiglu grid=(64) block=(256) args=(gate, up, y, next, rows, cols)
// style: every warp of persistent blocks draws its own rows' pieces: lane 0 takes the ticket, a shuffle tells the others
__global__ void swiglu(const float* gate, const float* up, float* y, unsigned* next, int rows, int cols)
{
    const unsigned lane = threadIdx.x & 31, all = rows * cols;
    for (;;) {
        unsigned from = 0;
        if (lane == 0) from = atomicAdd(next, 128u);
        from = __shfl_sync(~0u, from, 0);
        if (from >= all) return;
        for (unsigned i = from + lane; i < min(from + 128u, all); i += 32) {
            const float g = gate[i];
            y[i] = g / (1.0f + expf(-g)) * up[i];
        }
    }
}
