// problem: reduce_sum
// assay: temp slots float32 (32)
// assay: temp flags uint32 (32)
// assay: fill flags value=0
// assay: launch tree_of_blocks grid=(32) block=(64) args=(x, slots, flags, total, n)
// style: a tree over 32 blocks: each waits for its right-hand neighbours' flags (volatile, __threadfence), then raises its own
__global__ void tree_of_blocks(const float* x, volatile float* slots, volatile unsigned* flags, float* total, int n)
{
    __shared__ float two[2];
    float s = 0.0f;
    for (int i = blockIdx.x * 64 + threadIdx.x; i < n; i += 64 * 32) s += x[i];
    for (int d = 16; d; d >>= 1) s += __shfl_xor_sync(~0u, s, d);
    if (threadIdx.x % 32 == 0) two[threadIdx.x / 32] = s;
    __syncthreads();
    if (threadIdx.x != 0) return;
    s = two[0] + two[1];
    const unsigned me = blockIdx.x;
    for (unsigned d = 1; d < 32 && (me & d) == 0; d <<= 1) {
        while (flags[me + d] == 0) { }
        __threadfence();
        s += slots[me + d];
    }
    if (me == 0) {
        *total = s;
    } else {
        slots[me] = s;
        __threadfence();
        flags[me] = 1;
    }
}
