// problem: rms_norm
// attack: NaN everywhere, for comparisons that NaN gets past
// expect: incorrect
// because: NaN where the reference has none is wrong

__global__ void nan(const float* x, const float* weight, float* y, float eps, int rows, int cols)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < rows * cols) {
        y[i] = __int_as_float(0x7fc00000);
    }
}
