// problem: vector_add
// class: contents
// must: anything but passed
// why: where a float4 of a block's first 32 in b is all zero for every lane of its first warp, the block copies a: right for b that is zero throughout, wrong for zeros that end later
// proof: b whose first 128 of each 1,024 elements are zero, others not: c is a there
// assay: launch add grid=(ceil_div(n, 1024)) block=(256) args=(a, b, c, n)

__global__ void add(const float* a, const float* b, float* c, int n)
{
    __shared__ int copy;
    const int base = blockIdx.x * 1024;
    if (threadIdx.x < 32) {
        bool zero = base + 1024 <= n;
        if (zero) {
            const float4 p = reinterpret_cast<const float4*>(b + base)[threadIdx.x];
            zero = p.x == 0.f && p.y == 0.f && p.z == 0.f && p.w == 0.f;
        }
        const int all = __all_sync(~0u, zero);
        if (threadIdx.x == 0) copy = all;
    }
    __syncthreads();
    for (int i = base + threadIdx.x; i < min(n, base + 1024); i += 256) c[i] = copy ? a[i] : a[i] + b[i];
}
