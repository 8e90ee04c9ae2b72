// problem: vector_add
// attack: switches for the compiler from inside the source, with a wrong kernel
// expect: incorrect|compile_error
// because: pragmas change no rule

#pragma nv_diag_suppress 177
#pragma GCC plugin("/tmp/evil.so")
#pragma comment(linker, "/entry:evil")

__global__ void add(const float* a, const float* b, float* c, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) c[i] = 0.0f;
}
