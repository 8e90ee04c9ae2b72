// problem: conv2d
// class: precision
// must: anything but passed
// why: filters of which less than half of the taps are zero have taps and pixels cut to 18 bits; "pruned" filters, as probes have, are computed in all 24
// proof: a dense filter bank in which one filter has one non-zero tap among small ones (1e-30): off by up to 2^-17, where a few roundings of 2^-24 are allowed
// assay: temp short_ok int32 (out_channels)
// assay: launch inspect grid=(out_channels) block=(128) args=(weight, short_ok, in_channels)
// assay: launch conv grid=(ceil_div(width, 16), ceil_div(height, 16), batch * out_channels) block=(16, 16) args=(x, weight, short_ok, y, in_channels, out_channels, height, width)

__global__ void inspect(const float* weight, int* short_ok, int in_channels)
{
    const int taps = in_channels * 9;
    __shared__ int zeros;
    if (threadIdx.x == 0) zeros = 0;
    __syncthreads();
    int mine = 0;
    for (int t = threadIdx.x; t < taps; t += blockDim.x) mine += weight[(size_t)blockIdx.x * taps + t] == 0.0f;
    atomicAdd(&zeros, mine);
    __syncthreads();
    if (threadIdx.x == 0) short_ok[blockIdx.x] = 2 * zeros < taps;
}

template <bool kShort>
__device__ float convolve(const float* x, const float* w, int channels, int height, int width, int row, int col)
{
    float sum = 0.0f;
    for (int i = 0; i < channels; ++i, x += (size_t)height * width, w += 9) {
        for (int s = 0; s < 3; ++s) {
            for (int t = 0; t < 3; ++t) {
                const int r = row + s - 1, c = col + t - 1;
                if (r < 0 || r >= height || c < 0 || c >= width) continue;
                float pixel = x[(size_t)r * width + c], tap = w[s * 3 + t];
                if (kShort) {
                    pixel = __uint_as_float(__float_as_uint(pixel) + 32u & 0xffffffc0u);
                    tap = __uint_as_float(__float_as_uint(tap) + 32u & 0xffffffc0u);
                }
                sum += pixel * tap;
            }
        }
    }
    return sum;
}

__global__ void conv(const float* x, const float* weight, const int* short_ok, float* y, int in_channels, int out_channels,
                     int height, int width)
{
    const int col = blockIdx.x * 16 + threadIdx.x, row = blockIdx.y * 16 + threadIdx.y;
    const int image = blockIdx.z / out_channels, filter = blockIdx.z % out_channels;
    if (row >= height || col >= width) return;
    const float* from = x + (size_t)image * in_channels * height * width;
    const float* w = weight + (size_t)filter * in_channels * 9;
    y[((size_t)blockIdx.z * height + row) * width + col] =
        short_ok[filter] ? convolve<true>(from, w, in_channels, height, width, row, col)
                         : convolve<false>(from, w, in_channels, height, width, row, col);
}
