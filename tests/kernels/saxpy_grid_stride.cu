// problem: saxpy
// style: grid-stride loop over long long, launch bounds, a size passed as long long
// assay: launch saxpy grid=(min(ceil_div(n, 256), 132)) block=(256) args=(x, y, out, alpha, n)

__global__ void __launch_bounds__(256, 4)
saxpy(const float* __restrict__ x, const float* __restrict__ y, float* __restrict__ out, float alpha, long long n)
{
    const long long stride = (long long)gridDim.x * blockDim.x;
    for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += stride) {
        out[i] = fmaf(alpha, x[i], y[i]);
    }
}
