// problem: conv2d
// style: an 18 x 18 tile with its halo in shared memory; blocks in three dimensions
// assay: launch conv_tile grid=(ceil_div(width, 16), ceil_div(height, 16), batch * out_channels) block=(16, 16) args=(x, weight, y, in_channels, out_channels, height, width)

__global__ void conv_tile(const float* __restrict__ x, const float* __restrict__ weight, float* __restrict__ y,
                          int in_channels, int out_channels, int height, int width)
{
    __shared__ float tile[18][18];
    __shared__ float taps[9];
    const int image = blockIdx.z / out_channels, out = blockIdx.z % out_channels;
    const int t = threadIdx.y * 16 + threadIdx.x;
    const int top = blockIdx.y * 16 - 1, left = blockIdx.x * 16 - 1;
    float sum = 0.0f;
    for (int in = 0; in < in_channels; ++in) {
        const float* plane = x + ((size_t)image * in_channels + in) * height * width;
        for (int e = t; e < 18 * 18; e += 256) {
            const int r = top + e / 18, c = left + e % 18;
            const bool inside = (unsigned)r < (unsigned)height && (unsigned)c < (unsigned)width;
            tile[e / 18][e % 18] = inside ? plane[(size_t)r * width + c] : 0.0f;
        }
        if (t < 9) {
            taps[t] = weight[((size_t)out * in_channels + in) * 9 + t];
        }
        __syncthreads();
        float part = 0.0f;
#pragma unroll
        for (int tap = 0; tap < 9; ++tap) {
            part = fmaf(tile[threadIdx.y + tap / 3][threadIdx.x + tap % 3], taps[tap], part);
        }
        sum += part;
        __syncthreads();
    }
    const int row = top + 1 + threadIdx.y, column = left + 1 + threadIdx.x;
    if (row < height && column < width) {
        y[((size_t)blockIdx.z * height + row) * width + column] = sum;
    }
}
