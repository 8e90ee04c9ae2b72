// problem: reduce_sum
// assay: temp part float32 (32)
// assay: temp gate uint32 (2)
// assay: fill gate value=0
// assay: launch rounds grid=(32) block=(64) cooperative args=(x, part, gate, total, n)
// style: a sense-reversing grid barrier by hand (count and sense, __threadfence on both sides), five rounds of a tree
__device__ void meet(unsigned* gate, unsigned& sense)
{
    __syncthreads();
    sense ^= 1;
    if (threadIdx.x == 0) {
        __threadfence();
        if (atomicAdd(&gate[0], 1u) == gridDim.x - 1) {
            atomicExch(&gate[0], 0u);
            __threadfence();
            atomicExch(&gate[1], sense);
        } else {
            while (*(volatile unsigned*)&gate[1] != sense) { }
        }
        __threadfence();
    }
    __syncthreads();
}

__global__ void rounds(const float* x, float* part, unsigned* gate, float* total, int n)
{
    __shared__ float half;
    unsigned sense = 0;
    float s = 0.0f;
    for (int i = blockIdx.x * 64 + threadIdx.x; i < n; i += 32 * 64) s += x[i];
    for (int d = 16; d; d >>= 1) s += __shfl_down_sync(~0u, s, d);
    if (threadIdx.x == 32) half = s;
    __syncthreads();
    if (threadIdx.x == 0) part[blockIdx.x] = s + half;
    for (int width = 16; width; width >>= 1) {
        meet(gate, sense);
        if (threadIdx.x == 0 && blockIdx.x < width) part[blockIdx.x] += part[blockIdx.x + width];
    }
    if (blockIdx.x == 0 && threadIdx.x == 0) *total = part[0];
}
