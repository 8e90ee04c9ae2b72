// problem: relu
// flags: -std=c++20
// assay: launch apply grid=(ceil_div(n, 256)) block=(256) args=(x, y, n)
// style: C++20: a concept, a class type as a template argument, designated initialisers, a constrained auto
template <class F> concept unary = requires(F f, float v) { f(v); };

struct rectifier {
    float floor;
    __device__ constexpr float operator()(float v) const { return v > floor ? v : floor; }
};

struct span_of {
    const float* from;
    float* to;
    int size;
};

__device__ void map(const span_of s, unary auto f)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < s.size) [[likely]] s.to[i] = f(s.from[i]);
}

template <rectifier R> __global__ void apply(const float* x, float* y, int n)
{
    map({.from = x, .to = y, .size = n}, R);
}
template __global__ void apply<rectifier{0.0f}>(const float*, float*, int);
