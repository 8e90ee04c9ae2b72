// problem: vector_add
// assay: launch add_unrolled<8> grid=(ceil_div(n, 8 * 192)) block=(192) args=(a, b, c, n)
// style: no loop: a fold over std::index_sequence unrolls eight elements of a warp's slice at compile time
#include <utility>

template <std::size_t... Step>
__device__ void add_steps(const float* a, const float* b, float* c, int from, int n, std::index_sequence<Step...>)
{
    auto one = [&](int i) {
        if (i < n) c[i] = a[i] + b[i];
    };
    (one(from + int(Step) * 32), ...);
}

template <int Items>
__global__ void add_unrolled(const float* a, const float* b, float* c, int n)
{
    const int warp = (blockIdx.x * blockDim.x + threadIdx.x) / 32;
    add_steps(a, b, c, warp * 32 * Items + threadIdx.x % 32, n, std::make_index_sequence<Items>{});
}

template __global__ void add_unrolled<8>(const float*, const float*, float*, int);
