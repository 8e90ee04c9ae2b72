// problem: gelu
// class: schedule
// race: lock
// must: anything but passed
// why: a block takes the scratch buffer of its ticket modulo 64, in the belief that no more than 64 blocks run at once and that those of the ticket 64 earlier have ended; nothing waits for them
// proof: an H100 holds 132 * 32 blocks of 64 threads, so tickets t and t + 64 run at the same time and write one buffer
// assay: temp scratch float32 (64 * 64)
// assay: temp ticket uint32 (1)
// assay: fill ticket value=0
// assay: launch gelu grid=(ceil_div(n, 64)) block=(64) args=(x, y, scratch, ticket, n)
__global__ void gelu(const float* x, float* y, float* scratch, unsigned* ticket, int n)
{
    __shared__ unsigned drawn;
    if (threadIdx.x == 0) drawn = atomicAdd(ticket, 1u);
    __syncthreads();
    float* mine = scratch + drawn % 64 * 64;
    const int base = blockIdx.x * 64, i = base + threadIdx.x, other = threadIdx.x ^ 63;
    mine[other] = base + other < n ? x[base + other] : 0.0f;
    __syncthreads();
    const float v = mine[threadIdx.x];
    if (i < n) y[i] = 0.5f * v * (1.0f + erff(v * 0.70710678f));
}
