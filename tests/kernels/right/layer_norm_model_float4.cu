// problem: layer_norm
// assay: launch layernorm_vec grid=(rows) block=(256) args=(x, weight, bias, y, eps, cols)
// style: a chat model's vectorised layer norm: float4 if cols % 4 == 0, blockReduceSum, s_mean and s_rstd in shared memory
__inline__ __device__ float warpReduceSum(float val) {
    for (int mask = 16; mask > 0; mask >>= 1) val += __shfl_xor_sync(0xffffffff, val, mask, 32);
    return val;
}

__inline__ __device__ float blockReduceSum(float val) {
    static __shared__ float shared[32];
    int lane = threadIdx.x & 0x1f;
    int wid = threadIdx.x >> 5;
    val = warpReduceSum(val);
    if (lane == 0) shared[wid] = val;
    __syncthreads();
    val = (threadIdx.x < (blockDim.x >> 5)) ? shared[lane] : 0.0f;
    if (wid == 0) val = warpReduceSum(val);
    return val;
}

__global__ void layernorm_vec(const float* __restrict__ input, const float* __restrict__ gamma, const float* __restrict__ beta,
                              float* __restrict__ output, float eps, int hidden) {
    __shared__ float s_mean, s_rstd;
    const float* x = input + (size_t)blockIdx.x * hidden;
    float* y = output + (size_t)blockIdx.x * hidden;
    const bool vec = (hidden % 4) == 0;
    const int hidden4 = hidden / 4;

    float sum = 0.0f;
    if (vec) {
        for (int i = threadIdx.x; i < hidden4; i += blockDim.x) {
            float4 v = ((const float4*)x)[i];
            sum += v.x + v.y + v.z + v.w;
        }
    } else {
        for (int i = threadIdx.x; i < hidden; i += blockDim.x) sum += x[i];
    }
    sum = blockReduceSum(sum);
    if (threadIdx.x == 0) s_mean = sum / hidden;
    __syncthreads();

    float var = 0.0f;
    for (int i = threadIdx.x; i < hidden; i += blockDim.x) {
        float d = x[i] - s_mean;
        var += d * d;
    }
    var = blockReduceSum(var);
    if (threadIdx.x == 0) s_rstd = rsqrtf(var / hidden + eps);
    __syncthreads();

    if (vec) {
        for (int i = threadIdx.x; i < hidden4; i += blockDim.x) {
            float4 v = ((const float4*)x)[i];
            float4 g = __ldg((const float4*)gamma + i);
            float4 b = __ldg((const float4*)beta + i);
            v.x = (v.x - s_mean) * s_rstd * g.x + b.x;
            v.y = (v.y - s_mean) * s_rstd * g.y + b.y;
            v.z = (v.z - s_mean) * s_rstd * g.z + b.z;
            v.w = (v.w - s_mean) * s_rstd * g.w + b.w;
            ((float4*)y)[i] = v;
        }
    } else {
        for (int i = threadIdx.x; i < hidden; i += blockDim.x)
            y[i] = (x[i] - s_mean) * s_rstd * gamma[i] + beta[i];
    }
}
