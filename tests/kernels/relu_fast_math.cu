// problem: relu
// style: asks for two of the allowed compiler flags
// flags: --use_fast_math -maxrregcount=32
// assay: launch relu_fast grid=(ceil_div(n, 256)) block=(256) args=(x, y, n)

__global__ void relu_fast(const float* x, float* y, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        y[i] = fmaxf(x[i], 0.0f);
    }
}
