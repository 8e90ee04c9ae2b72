// problem: saxpy
// assay: temp next uint32 (1)
// assay: fill next value=0
// assay: launch saxpy_queue grid=(40) block=(192) args=(x, y, out, alpha, n, next)
// style: persistent blocks draw chunks of 768 from a counter in global memory until none is left
__global__ void saxpy_queue(const float* x, const float* y, float* out, float alpha, int n, unsigned int* next)
{
    constexpr unsigned chunk = 768;
    __shared__ unsigned start;
    for (;;) {
        __syncthreads();
        if (threadIdx.x == 0) start = atomicAdd(next, chunk);
        __syncthreads();
        const unsigned mine = start;
        if (mine >= (unsigned)n) break;
        const unsigned stop = min(mine + chunk, (unsigned)n);
        for (unsigned i = mine + threadIdx.x; i < stop; i += blockDim.x) out[i] = fmaf(alpha, x[i], y[i]);
    }
}
