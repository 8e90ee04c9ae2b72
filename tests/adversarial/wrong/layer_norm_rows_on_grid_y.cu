// problem: layer_norm
// class: sizes
// must: anything but passed
// why: a row for each block of grid.y, which ends at 65,535: more rows (131,072 are allowed) cannot be launched
// proof: assay grade --size rows=70000 --size cols=8 refuses it (a GPU: cudaErrorInvalidConfiguration)
// assay: launch ln grid=(1, rows) block=(32, 4) args=(x, weight, bias, y, eps, rows, cols)

__inline__ __device__ float sum128(float v, float* buf)
{
#pragma unroll
    for (int m = 16; m; m >>= 1) v += __shfl_xor_sync(0xffffffff, v, m);
    if (threadIdx.x == 0) buf[threadIdx.y] = v;
    __syncthreads();
    v = buf[0] + buf[1] + buf[2] + buf[3];
    __syncthreads();
    return v;
}

__global__ void ln(const float* x, const float* weight, const float* bias, float* y, float eps, int rows, int cols)
{
    __shared__ float buf[4];
    const float* xr = x + (size_t)blockIdx.y * cols;
    float* yr = y + (size_t)blockIdx.y * cols;
    const int t = threadIdx.y * 32 + threadIdx.x;
    float s = 0.f, d = 0.f;
    for (int c = t; c < cols; c += 128) s += xr[c];
    const float mu = sum128(s, buf) / cols;
    for (int c = t; c < cols; c += 128) d += (xr[c] - mu) * (xr[c] - mu);
    const float rstd = rsqrtf(sum128(d, buf) / cols + eps);
    for (int c = t; c < cols; c += 128) yr[c] = (xr[c] - mu) * rstd * weight[c] + bias[c];
}
