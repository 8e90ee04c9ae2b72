// problem: scalar_multiply
// style: counts and indices are differences of pointers into one array, in numbers and in a struct
#include <cstdint>
#include <cuda_runtime.h>
#include <iterator>

struct Part {
    const float* x;
    ptrdiff_t first, count;
    int back;
};

__global__ void scale(Part p, float* y, float alpha)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < p.count) y[p.first + i] = alpha * p.x[-p.back + i];
}

__global__ void move(const float* from, float* y, unsigned at, size_t count)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) y[at + i] = from[i];
}

extern "C" void solve(const float* x, float* y, float alpha, int n)
{
    float* arena;
    cudaMalloc(&arena, n * sizeof(float) + 256);
    const float *middle = x + n / 2, *end = x + n;
    float* rest = (float*)(((uintptr_t)(arena + n / 2) + 255) & ~(uintptr_t)255);
    int blocks = (n + 255) / 256;
    scale<<<blocks, 256>>>(Part{x, 0, middle - x, 0}, arena, alpha);
    scale<<<blocks, 256>>>(Part{x, rest - arena, std::distance(middle, end), (int)(x - middle)}, arena, alpha);
    move<<<blocks, 256>>>(arena, y, 0u, middle - x);
    move<<<blocks, 256>>>(rest, y, (unsigned)(((uintptr_t)(y + n / 2) - (uintptr_t)y) / sizeof(float)), end - middle);
    cudaFree(arena);
}
