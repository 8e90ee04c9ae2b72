// problem: reduce_sum
// class: schedule
// race: fence
// must: passed with a warning | anything but passed
// why: every block fences before it counts, but the last one reads the parts with plain loads and no fence after its count: it has released, never acquired
// proof: PTX: the acquire pattern is a strong read followed by a fence; without it the weak loads race with the parts' stores
// assay: temp part float32 (64)
// assay: temp count uint32 (1)
// assay: fill count value=0
// assay: launch sum grid=(64) block=(64) args=(x, part, count, total, n)

__global__ void sum(const float* x, float* part, unsigned* count, float* total, int n)
{
    __shared__ float half;
    const int t = threadIdx.x;
    float s = 0.0f;
    for (int i = blockIdx.x * 64 + t; i < n; i += 4096) s += x[i];
    for (int d = 16; d; d >>= 1) s += __shfl_xor_sync(~0u, s, d);
    if (t == 32) half = s;
    __syncthreads();
    if (t) return;
    part[blockIdx.x] = s + half;
    __threadfence();
    if (atomicAdd(count, 1u) == 63) {
        s = 0.0f;
        for (int b = 0; b < 64; ++b) s += part[b];
        *total = s;
    }
}
