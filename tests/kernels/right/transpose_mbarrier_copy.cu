// problem: transpose
// assay: launch transpose_mbar grid=(ceil_div(cols, 32), ceil_div(rows, 32)) block=(32, 8) args=(x, y, rows, cols)
// style: mbarrier in PTX: cp.async copies signal it by cp.async.mbarrier.arrive.noinc, threads spin on test_wait.parity
__global__ void transpose_mbar(const float* x, float* y, int rows, int cols)
{
    __shared__ float tile[32][33];
    __shared__ __align__(8) unsigned long long bar;
    const unsigned at = (unsigned)__cvta_generic_to_shared(&bar);
    if (threadIdx.x == 0 && threadIdx.y == 0) asm volatile("mbarrier.init.shared.b64 [%0], 256;" ::"r"(at) : "memory");
    __syncthreads();
    for (int i = threadIdx.y; i < 32; i += 8) {
        const int r = blockIdx.y * 32 + i, c = blockIdx.x * 32 + threadIdx.x;
        if (r < rows && c < cols)
            asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"((unsigned)__cvta_generic_to_shared(&tile[i][threadIdx.x])),
                         "l"(x + (size_t)r * cols + c) : "memory");
    }
    asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" ::"r"(at) : "memory");
    unsigned done = 0;
    while (!done) {
        asm volatile("{ .reg .pred p; mbarrier.test_wait.parity.shared.b64 p, [%1], 0; selp.u32 %0, 1, 0, p; }" : "=r"(done) : "r"(at) : "memory");
    }
    for (int i = threadIdx.y; i < 32; i += 8) {
        const int r = blockIdx.y * 32 + threadIdx.x, c = blockIdx.x * 32 + i;
        if (r < rows && c < cols) y[(size_t)c * rows + r] = tile[threadIdx.x][i];
    }
}
