// problem: matvec
// class: schedule
// race: divergence
// must: anything but passed
// why: a warp brings a piece of x to shared memory and reads all of it at once, without __syncwarp() on either side of the reads
// proof: CUDA guide, independent thread scheduling: a lane may read before another wrote, and write the next piece before another read
// assay: launch mv grid=(ceil_div(m, 64)) block=(64) args=(a, x, y, m, k)

__global__ void mv(const float* a, const float* x, float* y, int m, int k)
{
    __shared__ float piece[2][32];
    const int w = threadIdx.x / 32, lane = threadIdx.x % 32, row = blockIdx.x * 64 + threadIdx.x;
    float s = 0.0f;
    for (int base = 0; base < k; base += 32) {
        piece[w][lane] = base + lane < k ? x[base + lane] : 0.0f;
        for (int j = 0; j < min(32, k - base); ++j)
            if (row < m) s += a[(size_t)row * k + base + j] * piece[w][j];
    }
    if (row < m) y[row] = s;
}
