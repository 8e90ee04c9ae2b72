// problem: conv2d
// style: tap offsets from __constant__ and __device__ tables, borders by a switch
// assay: launch conv_tables grid=(ceil_div(height * width, 128), out_channels, batch) block=(128) args=(x, weight, y, in_channels, out_channels, height, width)

__constant__ signed char row_step[9] = {-1, -1, -1, 0, 0, 0, 1, 1, 1};
__device__ const char2 steps[9] = {{-1, -1}, {0, -1}, {1, -1}, {-1, 0}, {0, 0}, {1, 0}, {-1, 1}, {0, 1}, {1, 1}};

__device__ bool outside(int place, int extent, int step)
{
    switch (step) {
        case -1:
            return place == 0;
        case 1:
            return place == extent - 1;
        default:
            return false;
    }
}

__global__ void conv_tables(const float* x, const float* weight, float* y, int in_channels, int out_channels,
                            unsigned height, unsigned width)
{
    const unsigned pixel = blockIdx.x * 128 + threadIdx.x;
    if (pixel >= height * width) {
        return;
    }
    const unsigned row = pixel / width, column = pixel % width;
    const float* image = x + (size_t)blockIdx.z * in_channels * height * width;
    float sum = 0.0f;
    for (int tap = 0; tap < 9; ++tap) {
        const int dr = row_step[tap], dc = steps[tap].x;
        if (outside(row, height, dr) || outside(column, width, dc)) {
            continue;
        }
        const float* at = image + (size_t)(row + dr) * width + (column + dc);
        for (int in = 0; in < in_channels; ++in) {
            sum += at[(size_t)in * height * width] * weight[((size_t)blockIdx.y * in_channels + in) * 9 + tap];
        }
    }
    y[((size_t)blockIdx.z * out_channels + blockIdx.y) * height * width + pixel] = sum;
}
