// problem: scalar_multiply
// assay: launch vecscale grid=(ceil_div(n, 160)) block=(160) args=(x, y, alpha, n)
// style: a numerical analyst's: the product in double, __dmul_rn and __double2float_rn, rounded once
__global__ void vecscale(const float* x, float* y, float alpha, int n)
{
    const double a = alpha;
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = __double2float_rn(__dmul_rn(a, (double)x[i]));
}
