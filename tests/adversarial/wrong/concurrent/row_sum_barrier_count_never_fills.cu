// problem: row_sum
// class: schedule
// race: barrier
// must: anything but passed
// why: four warps share a row and meet at a named barrier that is told 160 threads, of which the block has 128: it never opens
// proof: PTX ISA, bar: the barrier completes when the number of threads told has arrived; no other thread arrives
// assay: launch rs grid=(rows) block=(128) args=(x, y, cols)
__global__ void rs(const float* x, float* y, int cols)
{
    __shared__ float part[4];
    float s = 0.0f;
    for (int c = threadIdx.x; c < cols; c += 128) s += x[(size_t)blockIdx.x * cols + c];
    for (int d = 16; d; d >>= 1) s += __shfl_down_sync(~0u, s, d);
    if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = s;
    asm volatile("bar.sync 3, 160;" ::: "memory");
    if (threadIdx.x == 0) y[blockIdx.x] = part[0] + part[1] + part[2] + part[3];
}
