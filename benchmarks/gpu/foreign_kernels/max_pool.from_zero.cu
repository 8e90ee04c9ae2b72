// expected: incorrect
// It begins with 0, and not with the least number.
// assay: launch max_pool grid=(ceil_div(batch_size * channels * (side // 2) * (side // 2), 256)) block=(256) args=(x, out, batch_size * channels, side)

extern "C" __global__ void max_pool(const float* x, float* out, int planes, int side)
{
    int half = side / 2, i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= planes * half * half) return;
    const float* at = x + (i / (half * half) * side + i / half % half * 2) * side + i % half * 2;
    out[i] = fmaxf(fmaxf(0.0f, fmaxf(at[0], at[1])), fmaxf(at[side], at[side + 1]));
}
