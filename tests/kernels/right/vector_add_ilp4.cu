// problem: vector_add
// assay: launch vadd_ilp grid=(ceil_div(n, 352 * 4)) block=(352) args=(a, b, c, n)
// style: eleven warps a block; four loads of each operand are issued before the first sum
#define ILP 4

__global__ __launch_bounds__(352) void vadd_ilp(const float* __restrict__ a, const float* __restrict__ b,
                                                float* __restrict__ c, int n)
{
    float ra[ILP], rb[ILP];
    const int first = blockIdx.x * blockDim.x * ILP + threadIdx.x;
#pragma unroll
    for (int u = 0; u < ILP; ++u) {
        const int i = first + u * blockDim.x;
        ra[u] = i < n ? a[i] : 0.f;
        rb[u] = i < n ? b[i] : 0.f;
    }
#pragma unroll
    for (int u = 0; u < ILP; ++u) {
        const int i = first + u * blockDim.x;
        if (i < n) c[i] = ra[u] + rb[u];
    }
}
