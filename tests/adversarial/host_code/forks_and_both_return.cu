// problem: vector_add
// attack: returns twice, from two processes
// expect: passed
// because: a child's copy of the recording is nobody's; the parent's is whole
#include <cuda_runtime.h>
#include <sys/wait.h>
#include <unistd.h>
__global__ void add(const float* a, const float* b, float* c, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) c[i] = a[i] + b[i];
}

extern "C" void solve(const float* a, const float* b, float* c, int n)
{
    pid_t child = fork();
    add<<<(n + 255) / 256, 256>>>(a, b, c, n);
    if (child) waitpid(child, nullptr, 0);
}
