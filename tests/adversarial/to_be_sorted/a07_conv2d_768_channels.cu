// problem: conv2d
// class: size (end of the range)
// why: a block keeps one filter of up to 768 channels in shared memory and leaves the other channels out; in_channels goes to 1,024
// assay: launch conv grid=(ceil_div(height * width, 128), batch * out_channels) block=(128) args=(x, weight, y, batch, in_channels, out_channels, height, width)
__global__ void conv(const float* x, const float* weight, float* y, int batch, int in_channels, int out_channels, int height, int width)
{
    __shared__ float w[768 * 9];
    int oc = blockIdx.y % out_channels, b = blockIdx.y / out_channels;
    int held = min(in_channels, 768);
    for (int i = threadIdx.x; i < held * 9; i += 128) w[i] = weight[(size_t)oc * in_channels * 9 + i];
    __syncthreads();
    int p = blockIdx.x * 128 + threadIdx.x;
    if (p >= height * width) return;
    int r = p / width, c = p % width;
    float s = 0;
    for (int ic = 0; ic < held; ic++)
        for (int i = 0; i < 3; i++) for (int j = 0; j < 3; j++) {
            int rr = r + i - 1, cc = c + j - 1;
            if (rr >= 0 && rr < height && cc >= 0 && cc < width)
                s += x[(((size_t)b * in_channels + ic) * height + rr) * width + cc] * w[ic * 9 + i * 3 + j];
        }
    y[((size_t)blockIdx.y * height + r) * width + c] = s;
}
