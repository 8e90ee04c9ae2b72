// problem: vector_add
// attack: reads in its last call alone the flag that lets it add, and in two of four the one that does not
// expect: incorrect
// because: calls that do the same on memory that was prepared in another way are other calls
// message: In its third call in one process
#include <cuda_runtime.h>
__global__ void add(const float* a, const float* b, float* c, const int* wrong, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) c[i] = *wrong ? 0.0f : a[i] + b[i];
}
__global__ void put(int* wrong, int value) { *wrong = value; }
extern "C" void solve(const float* a, const float* b, float* c, int n)
{
    static int* wrong[2] = {};
    static int calls = 0;
    if (!calls) for (int i = 0; i < 2; i++) {
        cudaMalloc(&wrong[i], 4);
        put<<<1, 1>>>(wrong[i], i);
    }
    add<<<(n + 255) / 256, 256>>>(a, b, c, wrong[calls % 4 == 1 || calls % 4 == 2], n);
    calls++;
}
