// problem: reduce_sum
// class: precision
// must: anything but passed
// why: vectors of more than 2^20 elements (timed at 2^22, published up to 2^18) are added in pairs of bfloat16: off by ten tolerances
// proof: assay grade --size n=1100000 refuses it
// assay: fill total value=0
// assay: launch sum grid=(ceil_div(n, 4096)) block=(128) args=(x, total, n)
#include <cuda_bf16.h>

template <typename Acc> __device__ Acc start();
template <> __device__ float start<float>() { return 0.f; }
template <> __device__ __nv_bfloat162 start<__nv_bfloat162>() { return __float2bfloat162_rn(0.f); }
__device__ void add(float& acc, float p, float q) { acc += p + q; }
__device__ void add(__nv_bfloat162& acc, float p, float q) { acc = __hadd2(acc, __floats2bfloat162_rn(p, q)); }
__device__ float whole(float acc) { return acc; }
__device__ float whole(__nv_bfloat162 acc) { return __low2float(acc) + __high2float(acc); }

template <typename Acc> __device__ float thread_sum(const float* x, int n)
{
    Acc acc = start<Acc>();
    for (int i = blockIdx.x * 4096 + 2 * threadIdx.x; i < min((int)(blockIdx.x + 1) * 4096, n); i += 256)
        add(acc, x[i], i + 1 < n ? x[i + 1] : 0.f);
    return whole(acc);
}

__global__ void sum(const float* x, float* total, int n)
{
    __shared__ float warps[4];
    float v = n > 1 << 20 ? thread_sum<__nv_bfloat162>(x, n) : thread_sum<float>(x, n);
    for (int o = 16; o; o >>= 1) v += __shfl_down_sync(~0u, v, o);
    if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = v;
    __syncthreads();
    if (threadIdx.x == 0) atomicAdd(total, warps[0] + warps[1] + warps[2] + warps[3]);
}
