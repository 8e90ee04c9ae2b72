// problem: reduce_sum
// class: schedule
// race: last block
// must: anything but passed
// why: counters in two levels: the last of a group of eight counts for it at the top, but a block is taken for the last of its group when it draws at least six, so the seventh counts too and the top is full when one group's sum is missing
// proof: numbers from atomicAdd are 0 to 7 and only 7 is the last; 6 and 7 both go up, so the ninth arrival at the top, at which the total is made, may come when only five groups are whole
// assay: temp part float32 (64)
// assay: temp low uint32 (8)
// assay: temp top uint32 (1)
// assay: fill low value=0
// assay: fill top value=0
// assay: launch sum grid=(64) block=(64) args=(x, total, part, low, top, n)
__global__ void sum(const float* x, float* total, float* part, unsigned* low, unsigned* top, int n)
{
    __shared__ float half[2];
    float s = 0.0f;
    for (int i = blockIdx.x * 64 + threadIdx.x; i < n; i += 4096) s += x[i];
    for (int d = 16; d; d >>= 1) s += __shfl_xor_sync(~0u, s, d);
    if (threadIdx.x % 32 == 0) half[threadIdx.x / 32] = s;
    __syncthreads();
    if (threadIdx.x) return;
    atomicExch(part + blockIdx.x, half[0] + half[1]);
    __threadfence();
    if (atomicAdd(low + blockIdx.x % 8, 1u) < 6) return;
    __threadfence();
    const unsigned number = atomicAdd(top, 1u);
    if (number != 8) return;
    __threadfence();
    float all = 0.0f;
    for (int b = 0; b < 64; ++b) all += atomicAdd(part + b, 0.0f);
    *total = all;
}
