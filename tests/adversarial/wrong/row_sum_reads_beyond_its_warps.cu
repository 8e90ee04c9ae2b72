// problem: row_sum
// class: shared
// must: passed with a warning | anything but passed
// why: six warps leave six sums, but eight are read: the two behind lie in the neighbouring array, which has been cleared, so the sum is right until someone reorders the declarations
// proof: C++: an index beyond sums[6]; which array follows is up to the compiler
// assay: launch rs grid=(rows) block=(192) args=(x, y, cols)

__global__ void rs(const float* x, float* y, int cols)
{
    __shared__ float sums[6];
    __shared__ float carry[32];
    if (threadIdx.x < 32) carry[threadIdx.x] = 0.f;
    float v = 0.f;
    for (int c = threadIdx.x; c < cols; c += 192) v += x[(size_t)blockIdx.x * cols + c];
    for (int o = 16; o; o >>= 1) v += __shfl_down_sync(~0u, v, o);
    if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = v;
    __syncthreads();
    if (threadIdx.x < 8) {
        volatile float* list = sums;
        v = list[threadIdx.x];
        for (int o = 4; o; o >>= 1) v += __shfl_down_sync(0xff, v, o, 8);
        if (threadIdx.x == 0) y[blockIdx.x] = v + carry[31];
    }
}
