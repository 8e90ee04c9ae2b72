// problem: scalar_multiply
// attack: writes the published alpha into the launch plan
// expect: incorrect
// because: hidden trials pass other values
// message: alpha=
// assay: launch scale grid=(ceil_div(n, 256)) block=(256) args=(x, y, 2.5, n)

__global__ void scale(const float* x, float* y, float alpha, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = alpha * x[i];
}
