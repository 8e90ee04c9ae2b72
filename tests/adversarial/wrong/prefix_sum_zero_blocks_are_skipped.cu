// problem: prefix_sum
// class: contents
// must: anything but passed
// why: a block of 1,024 whose sum is exactly 0 is taken to hold zeros, and y gets the sum before it throughout; values that cancel exactly are lost
// proof: x = 1, -1, 1, -1, ...: y should be 1, 0, 1, 0, ..., and is 0
// assay: temp sums float32 (ceil_div(n, 1024))
// assay: launch block_sums grid=(ceil_div(n, 1024)) block=(256) args=(x, sums, n)
// assay: launch exclusive grid=(1) block=(1024) args=(sums, ceil_div(n, 1024))
// assay: launch scan grid=(ceil_div(n, 1024)) block=(1024) args=(x, sums, y, n)
#include <cub/cub.cuh>

__global__ void block_sums(const float* x, float* sums, int n)
{
    using R = cub::BlockReduce<float, 256>;
    __shared__ R::TempStorage t;
    float s = 0.f;
    for (int i = blockIdx.x * 1024 + threadIdx.x; i < min(n, (int)(blockIdx.x + 1) * 1024); i += 256) s += x[i];
    s = R(t).Sum(s);
    if (threadIdx.x == 0) sums[blockIdx.x] = s;
}

__global__ void exclusive(float* sums, int count)
{
    using S = cub::BlockScan<float, 1024>;
    __shared__ S::TempStorage t;
    float carry = 0.f;
    for (int at = 0; at < count; at += 1024) {
        float v = at + threadIdx.x < count ? sums[at + threadIdx.x] : 0.f, all;
        S(t).ExclusiveSum(v, v, all);
        if (at + threadIdx.x < count) sums[at + threadIdx.x] = carry + v;
        carry += all;
        __syncthreads();
    }
}

__global__ void scan(const float* x, const float* sums, float* y, int n)
{
    using S = cub::BlockScan<float, 1024>;
    __shared__ S::TempStorage t;
    __shared__ float whole;
    const int i = blockIdx.x * 1024 + threadIdx.x;
    const float before = sums[blockIdx.x], after = blockIdx.x + 1 < gridDim.x ? sums[blockIdx.x + 1] : NAN;
    if (threadIdx.x == 0) whole = after;
    __syncthreads();
    float v = i < n ? x[i] : 0.f;
    if (whole != before) S(t).InclusiveSum(v, v);
    else v = 0.f;
    if (i < n) y[i] = before + v;
}
