// problem: relu
// attack: prints a string that is nowhere
// expect: runtime_error
// because: there is no text at that address
// fault: bad_string
// message: which belongs to no buffer

#include <cstdio>

__global__ void relu(const float* x, float* y, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        y[i] = fmaxf(x[i], 0.0f);
    }
    if (i == 0) {
        printf("%s\n", reinterpret_cast<char*>(0x7000000000)); // HERE
    }
}
