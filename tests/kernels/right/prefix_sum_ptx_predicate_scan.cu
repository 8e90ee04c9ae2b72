// problem: prefix_sum
// assay: temp t1 float32 (ceil_div(n, 1024))
// assay: temp t2 float32 (ceil_div(n, 1024 * 1024))
// assay: launch scan_1024 grid=(ceil_div(n, 1024)) block=(1024) args=(x, y, t1, n)
// assay: launch scan_1024 grid=(ceil_div(n, 1024 * 1024)) block=(1024) args=(t1, t1, t2, ceil_div(n, 1024))
// assay: launch add_left grid=(ceil_div(n, 1024)) block=(1024) args=(y, t1, t2, n)
// style: the PTX manual's scan: shfl.sync.up with a predicate, @p add; two levels of 1024, what is left is added by a loop
__device__ __forceinline__ float warp_scan(float v)
{
#pragma unroll
    for (int d = 1; d < 32; d <<= 1) {
        asm volatile("{ .reg .f32 t; .reg .pred p;\n\t"
                     "shfl.sync.up.b32 t|p, %0, %1, 0, 0xffffffff;\n\t"
                     "@p add.f32 %0, t, %0; }" : "+f"(v) : "r"(d));
    }
    return v;
}

__global__ void __launch_bounds__(1024) scan_1024(const float* x, float* y, float* totals, int n)
{
    __shared__ float ends[32];
    const int i = blockIdx.x * 1024 + threadIdx.x, lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    float s = warp_scan(i < n ? x[i] : 0.0f);
    if (lane == 31) ends[warp] = s;
    __syncthreads();
    if (warp == 0) ends[lane] = warp_scan(ends[lane]);
    __syncthreads();
    if (warp) s += ends[warp - 1];
    if (i < n) y[i] = s;
    if (threadIdx.x == 1023) totals[blockIdx.x] = s;
}

__global__ void add_left(float* y, const float* t1, const float* t2, int n)
{
    const int b = blockIdx.x, i = b * 1024 + threadIdx.x;
    if (b == 0 || i >= n) return;
    float left = 0.0f;
    for (int k = 0; k < (b - 1) / 1024; ++k) left += t2[k];
    y[i] += left + t1[b - 1];
}
