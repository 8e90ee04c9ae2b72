// problem: scalar_multiply
// assay: launch scale_tile<128, 7> grid=(ceil_div(n, 128 * 7)) block=(128) args=(x, y, alpha, n)
// style: after CUB: load a striped tile of seven items a thread into an array, change it, store it; guarded where short
template <int Threads, int Items> __device__ void load_striped(const float* from, float (&items)[Items], int valid)
{
#pragma unroll
    for (int i = 0; i < Items; ++i) {
        if (i * Threads + threadIdx.x < valid) items[i] = from[i * Threads + threadIdx.x];
    }
}

template <int Threads, int Items> __device__ void store_striped(float* to, const float (&items)[Items], int valid)
{
#pragma unroll
    for (int i = 0; i < Items; ++i) {
        if (i * Threads + threadIdx.x < valid) to[i * Threads + threadIdx.x] = items[i];
    }
}

template <int Threads, int Items>
__global__ __launch_bounds__(Threads) void scale_tile(const float* x, float* y, float alpha, int n)
{
    const int tile = Threads * Items;
    const int offset = blockIdx.x * tile;
    const int valid = min(tile, n - offset);
    float items[Items];
    load_striped<Threads, Items>(x + offset, items, valid);
#pragma unroll
    for (int i = 0; i < Items; ++i) items[i] *= alpha;
    store_striped<Threads, Items>(y + offset, items, valid);
}

template __global__ void scale_tile<128, 7>(const float*, float*, float, int);
