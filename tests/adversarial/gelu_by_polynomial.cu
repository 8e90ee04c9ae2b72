// problem: gelu
// attack: a polynomial for erf that is right to five digits (Abramowitz and Stegun 7.1.25)
// expect: incorrect
// because: the tolerance is a few roundings of float32

__device__ float coarse_erf(float x)
{
    const float t = 1.0f / (1.0f + 0.47047f * fabsf(x));
    return copysignf(1.0f - t * (0.3480242f + t * (-0.0958798f + t * 0.7478556f)) * expf(-x * x), x);
}

__global__ void low_precision(const float* x, float* y, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        y[i] = 0.5f * x[i] * (1.0f + coarse_erf(0.70710678f * x[i]));
    }
}
