// problem: gelu
// assay: launch gelu_parts grid=(ceil_div(n, 256)) block=(256) args=(x, y, n)
// style: functions that are never inlined take and return structs and cuda::std::tuple by value
#include <cuda/std/array>
#include <cuda/std/tuple>

struct parts {
    double value, density;
    cuda::std::array<float, 3> kept;
};

__device__ __noinline__ parts evaluate(float v)
{
    return {normcdf((double)v), exp(-0.5 * v * v), {v, 0.5f * v, -v}};
}

__device__ __noinline__ cuda::std::tuple<float, bool> finish(parts p)
{
    return {(float)(p.value * p.kept[0]), p.density >= 0.0};
}

__global__ void gelu_parts(const float* x, float* y, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    const auto [result, ok] = finish(evaluate(x[i]));
    y[i] = ok ? result : 0.0f;
}
