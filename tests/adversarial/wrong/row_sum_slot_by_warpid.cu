// problem: row_sum
// class: registers
// must: anything but passed
// why: %warpid is a place in a multiprocessor, not in a block, and may change while a thread runs (PTX ISA); warps of a block need not have 0 to 7, so sums are lost where several blocks share a multiprocessor
// proof: on a GPU, rows=4096 cols=1024: several blocks on a multiprocessor, most rows are wrong
// assay: launch rowsum grid=(rows) block=(256) args=(x, y, cols)

__global__ void rowsum(const float* x, float* y, int cols)
{
    __shared__ float slot[64];
    if (threadIdx.x < 64) slot[threadIdx.x] = 0.0f;
    __syncthreads();
    float v = 0.0f;
    for (int c = threadIdx.x; c < cols; c += 256) v += x[(size_t)blockIdx.x * cols + c];
    v += __shfl_xor_sync(0xffffffff, v, 16); v += __shfl_xor_sync(0xffffffff, v, 8);
    v += __shfl_xor_sync(0xffffffff, v, 4);  v += __shfl_xor_sync(0xffffffff, v, 2);
    v += __shfl_xor_sync(0xffffffff, v, 1);
    unsigned warp;
    asm("mov.u32 %0, %warpid;" : "=r"(warp));
    if (threadIdx.x % 32 == 0) slot[warp & 63] = v;
    __syncthreads();
    if (threadIdx.x == 0) {
        float s = 0.0f;
        for (int w = 0; w < 8; ++w) s += slot[w];
        y[blockIdx.x] = s;
    }
}
