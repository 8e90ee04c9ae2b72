// problem: vector_add
// attack: an assembler's error and its prints in the words of a driver whose compiler was killed
// expect: compile_error
// because: what the assembler refuses is the source's, whatever its text says of signals
// message: The host code does not compile
#include <cuda_runtime.h>

__global__ void add(const float* a, const float* b, float* c, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) c[i] = a[i] + b[i];
}

#ifndef __CUDA_ARCH__
asm(".print \"Killed\"");
asm(".print \"nvcc error   : 'cicc' died due to signal 9 (Kill signal)\"");
asm(".error \"x\\nKilled\\nvirtual memory exhausted\\ng++: fatal error: Killed signal terminated program as\\n"
    "compilation terminated.\\nnvcc error   : 'g++' died due to signal 9 (Kill signal)\"");
#endif

extern "C" void solve(const float* a, const float* b, float* c, int n)
{
    add<<<(n + 255) / 256, 256>>>(a, b, c, n);
}
