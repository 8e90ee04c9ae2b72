// problem: softmax
// class: warp
// must: passed with a warning | anything but passed
// why: in a loop that lanes leave at different times the mask of a reduction is __activemask(), which says who happens to run, not who takes part (CUDA guide); a lane that is late is left out of the sum
// proof: CUDA guide, __activemask: "merely returns a mask of the threads that are currently executing"; lanes of one branch need not converge
// assay: launch sm grid=(ceil_div(rows, 2)) block=(64) args=(x, y, rows, cols)

__device__ float wmax(float v, unsigned mask)
{
    for (int o = 16; o; o >>= 1) {
        const int from = (threadIdx.x & 31) ^ o;
        const float w = __shfl_sync(mask, v, mask >> from & 1 ? from : threadIdx.x & 31);
        v = fmaxf(v, w);
    }
    return v;
}

__global__ void sm(const float* x, float* y, int rows, int cols)
{
    __shared__ float tops[2][32], sums[2][32];
    const int w = threadIdx.x >> 5, l = threadIdx.x & 31, r = blockIdx.x * 2 + w;
    if (r >= rows) return;
    const float* in = x + (size_t)r * cols;
    float* out = y + (size_t)r * cols;
    float top = -INFINITY, sum = 0.f;
    for (int c = l; c < cols; c += 32) {
        // a shared maximum of the lanes that are still here keeps the rescaling rare
        const float t = wmax(fmaxf(top, in[c]), __activemask());
        sum = sum * expf(top - t) + expf(in[c] - t);
        top = t;
    }
    tops[w][l] = top;
    sums[w][l] = sum;
    __syncwarp();
    float all = -INFINITY, total = 0.f;
    for (int i = 0; i < 32; ++i) all = fmaxf(all, tops[w][i]);
    for (int i = 0; i < 32; ++i) if (sums[w][i] > 0.f) total += sums[w][i] * expf(tops[w][i] - all);
    for (int c = l; c < cols; c += 32) out[c] = expf(in[c] - all) / total;
}
