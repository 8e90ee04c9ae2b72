// problem: conv2d
// assay: launch conv2d_kernel grid=(ceil_div(batch * out_channels * height * width, 256)) block=(256) args=(x, weight, y, batch, in_channels, out_channels, height, width, 3, 1, 1)
// style: a model's general convolution with kernel_size, stride and padding as arguments; decoded index, min and max bounds
__global__ void conv2d_kernel(
    const float* __restrict__ input, const float* __restrict__ weight, float* __restrict__ output,
    int batch_size, int in_channels, int out_channels, int height, int width,
    int kernel_size, int stride, int padding
) {
    int out_h = (height + 2 * padding - kernel_size) / stride + 1;
    int out_w = (width + 2 * padding - kernel_size) / stride + 1;
    int idx = blockIdx.x * blockDim.x + threadIdx.x;
    int total = batch_size * out_channels * out_h * out_w;
    if (idx >= total) return;

    int ow = idx % out_w;
    int oh = (idx / out_w) % out_h;
    int oc = (idx / (out_w * out_h)) % out_channels;
    int n  = idx / (out_w * out_h * out_channels);

    int ih0 = oh * stride - padding;
    int iw0 = ow * stride - padding;
    int kh_begin = max(0, -ih0), kh_end = min(kernel_size, height - ih0);
    int kw_begin = max(0, -iw0), kw_end = min(kernel_size, width - iw0);

    float value = 0.0f;
    for (int ic = 0; ic < in_channels; ++ic) {
        for (int kh = kh_begin; kh < kh_end; ++kh) {
            for (int kw = kw_begin; kw < kw_end; ++kw) {
                value += input[((n * in_channels + ic) * height + ih0 + kh) * width + iw0 + kw]
                       * weight[((oc * in_channels + ic) * kernel_size + kh) * kernel_size + kw];
            }
        }
    }
    output[idx] = value;
}
