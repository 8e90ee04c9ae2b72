// problem: gelu
// assay: launch gelu_cdf grid=(ceil_div(n, 256)) block=(256) args=(x, y, n)
// style: x times the normal distribution's own function, normcdff
__global__ void gelu_cdf(const float *x, float *y, int n)
{
    int i = threadIdx.x + blockIdx.x * blockDim.x;
    if (i < n)
        y[i] = x[i] * normcdff(x[i]);
}
