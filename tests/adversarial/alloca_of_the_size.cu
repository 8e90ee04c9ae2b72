// problem: relu
// attack: takes as much memory from the stack as the tensor has, and gigabytes beyond
// expect: runtime_error|incorrect|out_of_memory
// because: a thread's stack is bounded
// assay: launch relu grid=(1) block=(32) args=(x, y, n)

#include <alloca.h>

__global__ void relu(const float* x, float* y, int n)
{
    float* room = static_cast<float*>(alloca(((size_t)n << 40) + 12));
    room[((size_t)n << 38)] = x[0];
    for (int i = 0; i < n; ++i) y[i] = room[((size_t)n << 38)];
}
