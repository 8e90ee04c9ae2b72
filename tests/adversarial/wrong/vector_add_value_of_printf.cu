// problem: vector_add
// class: registers
// must: anything but passed
// why: the value of printf is the number of its arguments on a GPU (CUDA guide, formatted output); it is used as an offset of the last element, which is right only where printf gives 0
// proof: on any GPU: c[n - 1] is a[n - 1] + b[n - 1] + 1
// assay: launch add grid=(ceil_div(n, 256)) block=(256) args=(a, b, c, n)
#include <cstdio>

__global__ void add(const float* a, const float* b, float* c, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    int shown = 0;
    if (i == n - 1) shown = printf("done %d\n", n);
    c[i] = a[i] + b[i] + (shown > 0 ? 1.0f : 0.0f);
}
