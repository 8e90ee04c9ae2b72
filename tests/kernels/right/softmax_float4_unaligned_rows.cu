// problem: softmax
// assay: launch softmax_v4 grid=(rows) block=(128) args=(x, y, cols)
// style: float4 where cols is a multiple of four, one template for both widths; warp results joined by a second shuffle
template <class V> struct lanes;
template <> struct lanes<float> {
    static constexpr int count = 1;
};
template <> struct lanes<float4> {
    static constexpr int count = 4;
};

template <class F> __device__ float all(float v, F f, float* s)
{
    for (int d = 16; d; d >>= 1) v = f(v, __shfl_xor_sync(~0u, v, d));
    if ((threadIdx.x & 31) == 0) s[threadIdx.x >> 5] = v;
    __syncthreads();
    v = s[threadIdx.x & 3];
    v = f(v, __shfl_xor_sync(~0u, v, 1));
    v = f(v, __shfl_xor_sync(~0u, v, 2));
    return v;
}

template <class V> __device__ void run(const float* in, float* out, int cols)
{
    __shared__ float s[2][4];
    constexpr int N = lanes<V>::count;
    const auto larger = [](float a, float b) { return fmaxf(a, b); };
    const auto plus = [](float a, float b) { return a + b; };
    float top = -3.402823466e38f, sum = 0.0f;
    for (int c = threadIdx.x; c < cols / N; c += blockDim.x) {
        const V v = reinterpret_cast<const V*>(in)[c];
        for (int k = 0; k < N; ++k) top = fmaxf(top, reinterpret_cast<const float*>(&v)[k]);
    }
    top = all(top, larger, s[0]);
    for (int c = threadIdx.x; c < cols / N; c += blockDim.x) {
        const V v = reinterpret_cast<const V*>(in)[c];
        for (int k = 0; k < N; ++k) sum += expf(reinterpret_cast<const float*>(&v)[k] - top);
    }
    sum = all(sum, plus, s[1]);
    for (int c = threadIdx.x; c < cols / N; c += blockDim.x) {
        V v = reinterpret_cast<const V*>(in)[c];
        for (int k = 0; k < N; ++k) {
            float& e = reinterpret_cast<float*>(&v)[k];
            e = __fdiv_rn(expf(e - top), sum);
        }
        reinterpret_cast<V*>(out)[c] = v;
    }
}

__global__ void softmax_v4(const float* x, float* y, int cols)
{
    const size_t start = (size_t)blockIdx.x * cols;
    if (cols % 4 == 0) run<float4>(x + start, y + start, cols);
    else run<float>(x + start, y + start, cols);
}
