// problem: rms_norm
// assay: launch rms grid=(ceil_div(rows, 2)) block=(128, 2) args=(x, weight, y, eps, rows, cols)
// style: a named barrier for each group of 128 in the loop, barrier 0 for the weights that both groups share
#define MEET(id, count) asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(count) : "memory")

__global__ void rms(const float* x, const float* weight, float* y, float eps, int rows, int cols)
{
    __shared__ float scaled[256], part[2][128];
    const int g = threadIdx.y, t = threadIdx.x, row = blockIdx.x * 2 + g, all = g * 128 + t;
    const bool here = row < rows;
    const float* in = x + (size_t)(here ? row : 0) * cols;
    float s = 0.0f;
    for (int c = t; c < cols; c += 128) s += in[c] * in[c];
    part[g][t] = s;
    for (int h = 64; h; h /= 2) {
        MEET(1 + g, 128);
        if (t < h) part[g][t] += part[g][t + h];
    }
    MEET(1 + g, 128);
    const float r = rsqrtf(part[g][0] / cols + eps);
    for (int base = 0; base < cols; base += 256) {
        MEET(0, 256);
        if (base + all < cols) scaled[all] = weight[base + all];
        MEET(0, 256);
        for (int e = t; e < min(256, cols - base); e += 128)
            if (here) y[(size_t)row * cols + base + e] = in[base + e] * r * scaled[e];
    }
}
