// problem: relu
// attack: prints with a null pointer as the format
// expect: runtime_error
// because: there is no text at 0
// fault: bad_string
// message: a null pointer

#include <cstdio>

__global__ void relu(const float* x, float* y, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        y[i] = fmaxf(x[i], 0.0f);
    }
    if (i == 0) {
        const char* volatile nothing = nullptr;
        printf(nothing); // HERE
    }
}
