// problem: saxpy
// style: parameters named as the problem's, in another order
__global__ void saxpy(int n, float a, const float* __restrict__ x, const float* __restrict__ y, float* __restrict__ out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = a * x[i] + y[i];
}

extern "C" void solve(int n, double alpha, const float* x, const float* y, float* out)
{
    saxpy<<<(n + 63) / 64, 64>>>(n, static_cast<float>(alpha), x, y, out);
}
