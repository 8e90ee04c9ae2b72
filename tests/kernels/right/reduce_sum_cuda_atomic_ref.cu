// problem: reduce_sum
// assay: temp wide float64 (1)
// assay: fill wide value=0
// assay: launch accumulate grid=(min(ceil_div(n, 1024), 528)) block=(256) args=(x, wide, n)
// assay: launch narrow grid=(1) block=(1) args=(wide, total)
// style: libcu++: cuda::atomic_ref<double> with relaxed order at device scope; float4 loads with a tail
#include <cuda/atomic>

__global__ void accumulate(const float* x, double* wide, int n)
{
    double s = 0.0;
    const int step = gridDim.x * blockDim.x, t = blockIdx.x * blockDim.x + threadIdx.x;
    for (int q = t; q < n / 4; q += step) {
        const float4 v = reinterpret_cast<const float4*>(x)[q];
        s += (double(v.x) + v.y) + (double(v.z) + v.w);
    }
    for (int i = n / 4 * 4 + t; i < n; i += step) s += x[i];
    for (int d = 16; d > 0; d >>= 1) s += __shfl_down_sync(0xffffffffu, s, d);
    if (threadIdx.x % 32 == 0) {
        cuda::atomic_ref<double, cuda::thread_scope_device> to(*wide);
        to.fetch_add(s, cuda::memory_order_relaxed);
    }
}

__global__ void narrow(const double* wide, float* total) { *total = float(*wide); }
