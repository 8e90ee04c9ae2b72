// problem: gelu
// style: a table of function pointers in global memory, from which the size chooses when the kernel runs
// assay: launch gelu_chosen grid=(ceil_div(n, 256)) block=(256) args=(x, y, n)

__device__ float by_erfc(float v) { return 0.5f * v * erfcf(-v * 0.70710678118654752f); }
__device__ float by_normal_distribution(float v) { return v * normcdff(v); }

typedef float (*Gelu)(float);
__device__ Gelu table[2] = {by_erfc, by_normal_distribution};

__global__ void gelu_chosen(const float* x, float* y, int n)
{
    const int i = blockIdx.x * 256 + threadIdx.x;
    if (i < n) y[i] = table[n & 1](x[i]);
}
