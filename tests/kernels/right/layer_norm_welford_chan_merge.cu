// problem: layer_norm
// style: Welford in each thread in float32, merged by Chan's formula through shuffles and shared memory; rsqrt.approx.ftz in PTX
// assay: launch ln_welford grid=(rows) block=(256) args=(x, weight, bias, y, eps, cols)
struct Moments {
    float count, mean, m2;
};

__device__ Moments merge(Moments a, Moments b)
{
    const float count = a.count + b.count;
    if (count == 0.0f) return a;
    const float delta = b.mean - a.mean, share = b.count / count;
    return {count, a.mean + delta * share, a.m2 + b.m2 + delta * delta * a.count * share};
}

__device__ Moments across(Moments v, int lanes)
{
    for (int d = lanes / 2; d; d /= 2)
        v = merge(v, {__shfl_xor_sync(~0u, v.count, d), __shfl_xor_sync(~0u, v.mean, d), __shfl_xor_sync(~0u, v.m2, d)});
    return v;
}

__global__ void ln_welford(const float* x, const float* weight, const float* bias, float* y, float eps, int cols)
{
    __shared__ Moments shared[32];
    const float* in = x + (size_t)blockIdx.x * cols;
    Moments own = {0.0f, 0.0f, 0.0f};
    for (int j = threadIdx.x; j < cols; j += 256) {
        own.count += 1.0f;
        const float delta = in[j] - own.mean;
        own.mean += delta / own.count;
        own.m2 += delta * (in[j] - own.mean);
    }
    own = across(own, 32);
    if (threadIdx.x < 32) shared[threadIdx.x] = {0.0f, 0.0f, 0.0f};
    __syncthreads();
    if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = own;
    __syncthreads();
    const Moments all = across(shared[threadIdx.x % 32], 32);
    float r, v = all.m2 / cols + eps;
    asm("rsqrt.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(v));
    for (int j = threadIdx.x; j < cols; j += 256)
        y[(size_t)blockIdx.x * cols + j] = fmaf((in[j] - all.mean) * r, weight[j], bias[j]);
}
