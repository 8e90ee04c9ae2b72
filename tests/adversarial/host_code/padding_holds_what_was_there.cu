// problem: vector_add
// attack: leaves addresses of its own, other ones at each run and call, in the padding of a struct
// expect: passed
// because: no kernel sees padding, and honest host code leaves there what was on the stack
#include <cuda_runtime.h>
#include <cstring>

struct Bounds {
    short first;
    long long last;
};
struct Arguments {
    char tag;
    Bounds bounds[2];
    const float* a;
    const float* b;
    bool adds;
    float* c;
    char end;
};

template <typename F> __global__ void add(Arguments x, F f)
{
    long long i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < x.bounds[1].last && x.adds) x.c[i] = f(x.a[i], x.b[i]);
}
struct Plus {
    __device__ float operator()(float x, float y) const { return x + y; }
};

extern "C" void solve(const float* a, const float* b, float* c, int n)
{
    static int calls = 1;
    Arguments arguments;
    memset(&arguments, (int)((size_t)&arguments >> 12) + calls++, sizeof arguments);
    arguments.tag = 1, arguments.adds = true, arguments.end = 0;
    arguments.bounds[0].first = arguments.bounds[1].first = 0;
    arguments.bounds[0].last = arguments.bounds[1].last = n;
    arguments.a = a, arguments.b = b, arguments.c = c;
    add<<<(n + 255) / 256, 256>>>(arguments, Plus());
}
