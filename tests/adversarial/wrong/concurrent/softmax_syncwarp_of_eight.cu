// problem: softmax
// class: schedule
// race: mask
// must: anything but passed
// why: four groups of eight lanes share a row each; every lane calls __syncwarp(0xff), which names the first group only: lanes 8 to 31 are not in their own mask, and their groups are not synchronised
// proof: CUDA guide: a thread must be named in the mask it passes; 0xff << group * 8 is needed
// assay: launch sm grid=(ceil_div(rows, 4)) block=(32) args=(x, y, rows, cols)

__global__ void sm(const float* x, float* y, int rows, int cols)
{
    __shared__ float part[4][8];
    const int g = threadIdx.x / 8, l = threadIdx.x % 8, row = blockIdx.x * 4 + g;
    const float* in = x + (size_t)min(row, rows - 1) * cols;
    float m = -INFINITY, s = 0.0f;
    for (int c = l; c < cols; c += 8) m = fmaxf(m, in[c]);
    part[g][l] = m;
    __syncwarp(0xff);
    for (int i = 0; i < 8; ++i) m = fmaxf(m, part[g][i]);
    __syncwarp(0xff);
    for (int c = l; c < cols; c += 8) s += expf(in[c] - m);
    part[g][l] = s;
    __syncwarp(0xff);
    s = 0.0f;
    for (int i = 0; i < 8; ++i) s += part[g][i];
    if (row < rows)
        for (int c = l; c < cols; c += 8) y[(size_t)row * cols + c] = expf(in[c] - m) / s;
}
