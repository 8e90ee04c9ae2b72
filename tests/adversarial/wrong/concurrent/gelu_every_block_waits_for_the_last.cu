// problem: gelu
// class: schedule
// race: lock
// must: anything but passed
// why: a barrier over all blocks by hand in an ordinary launch of one block for 32 elements: at a million elements there are 32768 blocks, which no GPU holds at once, and those that wait keep the others out
// proof: CUDA guide, cooperative groups: a grid must be co-resident for its blocks to wait for each other; an H100 holds at most 132 * 32 blocks
// assay: temp came uint32 (1)
// assay: fill came value=0
// assay: launch gelu grid=(ceil_div(n, 32)) block=(32) args=(x, y, came, n)
__global__ void gelu(const float* x, float* y, unsigned* came, int n)
{
    const int i = blockIdx.x * 32 + threadIdx.x;
    const float v = i < n ? x[i] : 0.0f;
    if (threadIdx.x == 0) {
        __threadfence();
        atomicAdd(came, 1u);
        while (atomicAdd(came, 0u) < gridDim.x) { }
        __threadfence();
    }
    __syncwarp();
    if (i < n) y[i] = 0.5f * v * (1.0f + erff(v * 0.70710678f));
}
