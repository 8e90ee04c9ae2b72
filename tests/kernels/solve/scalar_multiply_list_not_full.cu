// problem: scalar_multiply
// style: a list of parts of which only some are filled, and a number in a union; the rest is what was on the stack
#include <cuda_runtime.h>

struct Parts {
    const float* in[6];
    float* out[6];
    int sizes[6];
    int many;
};
struct Number {
    int is_double;
    union {
        float f;
        double d;
    } value;
};

__global__ void scale(Parts parts, Number number)
{
    const float alpha = number.is_double ? (float)number.value.d : number.value.f;
    for (int part = 0; part < parts.many; part++)
        for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < parts.sizes[part]; i += gridDim.x * blockDim.x)
            parts.out[part][i] = alpha * parts.in[part][i];
}

__attribute__((noinline)) void use_the_stack()
{
    volatile void* addresses[64];
    for (auto& address : addresses) address = &address;
}
__attribute__((noinline)) void launch(const float* x, float* y, float alpha, int n)
{
    Parts parts;
    Number number;
    for (parts.many = 0; parts.many < 2; parts.many++) {
        const int start = parts.many * (n / 2);
        parts.in[parts.many] = x + start;
        parts.out[parts.many] = y + start;
        parts.sizes[parts.many] = parts.many ? n - start : n / 2;
    }
    number.is_double = 0;
    number.value.f = alpha;
    scale<<<8, 128>>>(parts, number);
}

extern "C" void solve(const float* x, float* y, float alpha, int n)
{
    use_the_stack();
    launch(x, y, alpha, n);
}
