// problem: row_sum
// class: warp
// must: passed with a warning | anything but passed
// why: lanes hand their sums over in shared memory with a vote between write and read; votes order lanes, but no memory (CUDA guide: "does not guarantee memory ordering")
// proof: CUDA guide, warp vote functions: they do not imply a memory barrier; __syncwarp is missing on both sides
// assay: launch rs grid=(ceil_div(rows, 4)) block=(32, 4) args=(x, y, rows, cols)

__global__ void rs(const float* x, float* y, int rows, int cols)
{
    __shared__ float2 lanes[4][32];
    const int r = blockIdx.x * 4 + threadIdx.y, l = threadIdx.x;
    if (r >= rows) return;
    float2 s = make_float2(0.f, 0.f);
    for (int c = l; c < cols; c += 64) {
        s.x += x[(size_t)r * cols + c];
        if (c + 32 < cols) s.y += x[(size_t)r * cols + c + 32];
    }
    lanes[threadIdx.y][l] = s;
    if (__all_sync(0xffffffffu, l < 32)) {
        float total = 0.f;
        for (int i = 0; i < 32; ++i) {
            const float2 other = lanes[threadIdx.y][l ^ i];
            total += other.x + other.y;
        }
        if (l == 31) y[r] = total;
    }
}
