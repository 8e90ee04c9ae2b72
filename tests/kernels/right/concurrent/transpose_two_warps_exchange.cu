// problem: transpose
// assay: launch exchange grid=(ceil_div(cols, 32), min(ceil_div(rows, 32), 2048)) block=(64) args=(x, y, rows, cols)
// style: warps hand each other half a tile: two mbarriers of count 32, arrive on one's own, test_wait.parity on both
__device__ __forceinline__ unsigned shared_address(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }

__global__ void exchange(const float* x, float* y, int rows, int cols)
{
    __shared__ float half[2][16][33];
    __shared__ unsigned long long written[2];
    const int w = threadIdx.x >> 5, lane = threadIdx.x & 31;
    if (threadIdx.x < 2)
        asm volatile("mbarrier.init.shared.b64 [%0], 32;" ::"r"(shared_address(&written[threadIdx.x])) : "memory");
    __syncthreads();
    unsigned phase = 0;
    for (int tile = blockIdx.y; tile < (rows + 31) / 32; tile += gridDim.y, phase ^= 1) {
        const int c0 = blockIdx.x * 32, r0 = tile * 32;
        for (int i = 0; i < 16; ++i) {
            const int r = r0 + w * 16 + i, c = c0 + lane;
            half[w][i][lane] = r < rows && c < cols ? x[(size_t)r * cols + c] : 0.0f;
        }
        asm volatile("{ .reg .b64 t; mbarrier.arrive.shared.b64 t, [%0]; }" ::"r"(shared_address(&written[w])) : "memory");
        for (int part = 0; part < 2; ++part) {
            unsigned ok = 0;
            while (!ok)
                asm volatile("{ .reg .pred p; mbarrier.test_wait.parity.shared.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
                             : "=r"(ok) : "r"(shared_address(&written[part])), "r"(phase) : "memory");
        }
        for (int i = 0; i < 16; ++i) {
            const int c = c0 + w * 16 + i, r = r0 + lane;
            if (r < rows && c < cols) y[(size_t)c * rows + r] = half[lane >> 4][lane & 15][w * 16 + i];
        }
        __syncthreads();
    }
}
