// expected: passed
// One thread for each output.
// assay: launch depthwise grid=(ceil_div(batch_size * channels * (side - 2) * (side - 2), 128)) block=(128) args=(x, conv_weight, out, batch_size, channels, side)

extern "C" __global__ void depthwise(const float* x, const float* conv_weight, float* out, int batch_size, int channels, int side)
{
    int inner = side - 2, i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= batch_size * channels * inner * inner) return;
    int column = i % inner, row = i / inner % inner, plane = i / (inner * inner);
    float sum = 0.0f;
    for (int down = 0; down < 3; ++down)
        for (int right = 0; right < 3; ++right)
            sum += x[(plane * side + row + down) * side + column + right] *
                   conv_weight[plane % channels * 9 + down * 3 + right];
    out[i] = sum;
}
