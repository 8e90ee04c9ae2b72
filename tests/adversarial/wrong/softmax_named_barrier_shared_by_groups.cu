// problem: softmax
// class: shared
// must: anything but passed
// why: two groups of 64 threads, each with a row of its own, use the same named barrier with a count of 64: one warp of each group is enough to open it, before the other warp of the group has written
// proof: PTX bar.sync: a barrier completes when the count is reached, whoever arrives; groups of different speed read what is not yet there
// assay: launch sm grid=(ceil_div(rows, 2)) block=(64, 2) args=(x, y, rows, cols)

#define GROUP_SYNC() asm volatile("bar.sync 1, 64;" ::: "memory")

__global__ void sm(const float* x, float* y, int rows, int cols)
{
    __shared__ float part[2][64];
    const int g = threadIdx.y, t = threadIdx.x;
    const int r = min(blockIdx.x * 2 + g, rows - 1);  // the odd group out repeats the last row, and keeps it
    const float* in = x + (size_t)r * cols;
    float* out = y + (size_t)r * cols;
    float m = -INFINITY;
    for (int c = t; c < cols; c += 64) m = fmaxf(m, in[c]);
    part[g][t] = m;
    GROUP_SYNC();
    for (int i = 0; i < 64; ++i) m = fmaxf(m, part[g][i]);
    GROUP_SYNC();
    float s = 0.f;
    for (int c = t; c < cols; c += 64) s += expf(in[c] - m);
    part[g][t] = s;
    GROUP_SYNC();
    s = 0.f;
    for (int i = 0; i < 64; ++i) s += part[g][i];
    if (r == blockIdx.x * 2 + g) for (int c = t; c < cols; c += 64) out[c] = expf(in[c] - m) / s;
}
