// problem: histogram
// assay: fill counts value=0
// assay: launch count_dp4a grid=(min(ceil_div(n, 1024), 256)) block=(256) args=(values, counts, n)
// style: bytes packed by __byte_perm into words; a thread a bin adds equal bytes with __dp4a of 0/1 masks
__global__ void count_dp4a(const int* values, int* counts, int n)
{
    __shared__ unsigned words[256];
    unsigned mine = 0;
    const unsigned all = threadIdx.x * 0x01010101u;
    for (int base = blockIdx.x * 1024; base < n; base += gridDim.x * 1024) {
        const int i = base + threadIdx.x * 4, left = min(4, max(0, n - i));
        unsigned v[4] = {0, 0, 0, 0};
        for (int k = 0; k < left; ++k) v[k] = values[i + k];
        __syncthreads();
        words[threadIdx.x] = __byte_perm(__byte_perm(v[0], v[1], 0x0040), __byte_perm(v[2], v[3], 0x0040), 0x5410);
        __syncthreads();
        const int valid = min(1024, n - base);
        for (int w = 0; w < valid / 4; ++w) {
            const unsigned equal = __vcmpeq4(words[w], all) & 0x01010101u;
            mine = __dp4a(equal, 0x01010101u, mine);
        }
        for (int k = 0; k < valid % 4; ++k) mine += (words[valid / 4] >> 8 * k & 0xffu) == threadIdx.x;
    }
    if (mine) atomicAdd(&counts[threadIdx.x], (int)mine);
}
