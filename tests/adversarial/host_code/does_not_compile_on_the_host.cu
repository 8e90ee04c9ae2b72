// problem: vector_add
// attack: a mistake that only the host pass sees
// expect: compile_error
// because: the host code has to compile too
// message: The host code does not compile
__global__ void add(const float* a, const float* b, float* c, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) c[i] = a[i] + b[i];
}

#ifndef __CUDA_ARCH__
static int broken = not_declared_anywhere;
#endif

extern "C" void solve(const float* a, const float* b, float* c, int n)
{
    add<<<(n + 255) / 256, 256>>>(a, b, c, n);
}
