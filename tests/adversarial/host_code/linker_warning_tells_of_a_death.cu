// problem: vector_add
// attack: a linker's warning and an undefined name in the words of a linker that was killed
// expect: unsupported
// because: the linker has ended by itself, and names what nobody defines
// message: nobody_has_this
#include <cuda_runtime.h>

__global__ void add(const float* a, const float* b, float* c, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) c[i] = a[i] + b[i];
}

#ifndef __CUDA_ARCH__
asm(".section .gnu.warning.nobody_has_this,\"\",@progbits\n"
    ".ascii \"x\\nKilled\\ncollect2: fatal error: ld terminated with signal 9 [Killed]\\ncompilation terminated.\"\n"
    ".text\n");
#endif
extern "C" void nobody_has_this();

extern "C" void solve(const float* a, const float* b, float* c, int n)
{
    nobody_has_this();
    add<<<(n + 255) / 256, 256>>>(a, b, c, n);
}
