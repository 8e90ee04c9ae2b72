// problem: relu
// assay: launch relu_roles grid=(min(ceil_div(n, 128), 400)) block=(256) args=(x, y, n)
// style: warp specialisation: four warps load into a ring of two buffers, four store; bar.arrive and bar.sync on named barriers
__device__ __forceinline__ void wait(int id) { asm volatile("bar.sync %0, 256;" ::"r"(id) : "memory"); }
__device__ __forceinline__ void arrive(int id) { asm volatile("bar.arrive %0, 256;" ::"r"(id) : "memory"); }

__global__ void relu_roles(const float* x, float* y, int n)
{
    __shared__ float ring[2][128];
    const int t = threadIdx.x & 127, tiles = (n + 127) / 128;
    // barriers 1, 2: buffer full; 3, 4: buffer empty
    if (threadIdx.x < 128) {
        int b = 0;
        for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x, b ^= 1) {
            wait(3 + b);
            const int i = tile * 128 + t;
            ring[b][t] = i < n ? x[i] : 0.0f;
            arrive(1 + b);
        }
    } else {
        arrive(3);
        if ((int)(blockIdx.x + gridDim.x) < tiles) arrive(4);
        int b = 0;
        for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x, b ^= 1) {
            wait(1 + b);
            const int i = tile * 128 + t;
            if (i < n) y[i] = fmaxf(ring[b][t], 0.0f);
            if (tile + 2 * (int)gridDim.x < tiles) arrive(3 + b);
        }
    }
}
