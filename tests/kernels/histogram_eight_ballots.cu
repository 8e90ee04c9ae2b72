// problem: histogram
// style: eight ballots, one for each bit, give every lane the mask of its equals; __clz picks the leader
// assay: fill counts value=0
// assay: launch count_bits grid=(min(ceil_div(n, 128), 1024)) block=(128) args=(values, counts, n)

__global__ void count_bits(const int* __restrict__ values, unsigned* __restrict__ counts, int n)
{
    const int lane = threadIdx.x & 31;
    const int warps = gridDim.x * (blockDim.x / 32);
    for (int start = (blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32) * 32; start < n; start += warps * 32) {
        const int i = start + lane;
        const int value = i < n ? values[i] : 0;
        unsigned equal = __ballot_sync(0xffffffffu, i < n);
#pragma unroll
        for (int bit = 0; bit < 8; ++bit) {
            const bool set = value >> bit & 1;
            const unsigned with_bit = __ballot_sync(0xffffffffu, set);
            equal &= set ? with_bit : ~with_bit;
        }
        if (i < n && lane == 31 - __clz(equal)) {
            atomicAdd(&counts[value], (unsigned)__popc(equal));
        }
    }
}
