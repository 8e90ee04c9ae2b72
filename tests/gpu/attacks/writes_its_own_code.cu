// problem: relu
// attack: writes to where its own code is
// expect: passed|runtime_error
// because: code is not in the address space that a kernel can write
// rehearse: no
// twin: relu_twin
// assay: launch work grid=(ceil_div(n, 256)) block=(256) args=(x, y, n)

__device__ __noinline__ float positive(float value)
{
    return fmaxf(value, 0.0f);
}

__device__ float (*const volatile called)(float) = positive;

__global__ void work(const float* x, float* y, int n)
{
    int i = blockIdx.x * 256 + threadIdx.x;
    if (i < n) {
        y[i] = fmaxf(x[i], 0.0f);
    }
    if (i == 0) {
        *(volatile int*)called = 0;
    }
}
