// problem: scalar_multiply
// class: sizes
// must: anything but passed
// why: the grid is capped at 4,096 blocks and a thread takes four float4 and no more: 2^24 elements (the timed size) are covered, what lies beyond stays unwritten
// proof: assay grade --size n=16777220 refuses it
// assay: launch scale grid=(min(ceil_div(n, 4096), 4096)) block=(256) args=(x, y, alpha, n)

template <typename Vec, int Items, int Threads>
struct Tile {
    static constexpr int kVectors = Items * Threads;
    Vec held[Items];

    __device__ void load(const Vec* from, long long first, long long vectors) {
#pragma unroll
        for (int i = 0; i < Items; ++i) {
            const long long at = first + i * Threads + threadIdx.x;
            if (at < vectors) held[i] = __ldg(from + at);
        }
    }
    template <typename F>
    __device__ void map(F f) {
#pragma unroll
        for (int i = 0; i < Items; ++i) held[i] = f(held[i]);
    }
    __device__ void store(Vec* to, long long first, long long vectors) const {
#pragma unroll
        for (int i = 0; i < Items; ++i) {
            const long long at = first + i * Threads + threadIdx.x;
            if (at < vectors) to[at] = held[i];
        }
    }
};

extern "C" __global__ void __launch_bounds__(256) scale(const float* x, float* y, float alpha, int n)
{
    using T = Tile<float4, 4, 256>;
    T tile;
    for (int i = 0; i < 4; ++i) tile.held[i] = make_float4(0.f, 0.f, 0.f, 0.f);
    const long long first = (long long)blockIdx.x * T::kVectors, vectors = n / 4;
    tile.load(reinterpret_cast<const float4*>(x), first, vectors);
    tile.map([alpha](float4 v) { return make_float4(alpha * v.x, alpha * v.y, alpha * v.z, alpha * v.w); });
    tile.store(reinterpret_cast<float4*>(y), first, vectors);
    if (blockIdx.x == gridDim.x - 1 && threadIdx.x < (n & 3)) {
        const int at = (n & ~3) + threadIdx.x;
        y[at] = alpha * x[at];
    }
}
