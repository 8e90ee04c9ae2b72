// problem: vector_add
// assay: launch vectoradd_float grid=(ceil_div(n, 64)) block=(64) args=(c, a, b, n)
// style: a HIP sample compiled as CUDA: hipBlockIdx_x and friends as macros, wavefronts of 64, output first
#define hipBlockDim_x blockDim.x
#define hipBlockIdx_x blockIdx.x
#define hipThreadIdx_x threadIdx.x
#define HIP_KERNEL_NAME(...) __VA_ARGS__

__global__ void vectoradd_float(float* __restrict__ a, const float* __restrict__ b, const float* __restrict__ c, int size)
{
    int i = hipBlockDim_x * hipBlockIdx_x + hipThreadIdx_x;
    if (i < size) {
        a[i] = b[i] + c[i];
    }
}
