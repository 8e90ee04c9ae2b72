// problem: gelu
// assay: launch gelu_dispatch grid=(ceil_div(n, 1024)) block=(128) args=(x, y, n)
// style: a dispatcher inside the kernel: a switch over what is left picks an unrolled template for 1 to 8 elements
template <int N> __device__ void some(const float* x, float* y)
{
    float v[N];
#pragma unroll
    for (int i = 0; i < N; ++i) v[i] = x[i];
#pragma unroll
    for (int i = 0; i < N; ++i) v[i] *= 0.5f + 0.5f * erff(v[i] * 0.70710678f);
#pragma unroll
    for (int i = 0; i < N; ++i) y[i] = v[i];
}

__global__ void gelu_dispatch(const float* x, float* y, int n)
{
    const int begin = (blockIdx.x * blockDim.x + threadIdx.x) * 8;
    switch (min(8, max(0, n - begin))) {
    case 8: return some<8>(x + begin, y + begin);
    case 7: return some<7>(x + begin, y + begin);
    case 6: return some<6>(x + begin, y + begin);
    case 5: return some<5>(x + begin, y + begin);
    case 4: return some<4>(x + begin, y + begin);
    case 3: return some<3>(x + begin, y + begin);
    case 2: return some<2>(x + begin, y + begin);
    case 1: return some<1>(x + begin, y + begin);
    default: return;
    }
}
