// problem: vector_add
// attack: reads in its last call alone the flag that lets it add, and in two of four the one that does not; and writes to it
// expect: incorrect
// because: calls on memory that they change, and that was prepared in another way, are other calls
// message: In its third call in one process
#include <cuda_runtime.h>
__global__ void add(const float* a, const float* b, float* c, int* wrong, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    const int odd = *wrong & 1;
    if (i < n) c[i] = odd ? 0.0f : a[i] + b[i];
    if (i == 0) atomicAdd(wrong, 2);
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
