// problem: conv2d
// class: shared
// must: anything but passed
// why: the border of the image's tile is never written; what lies there is multiplied by 0, which is NaN wherever the memory holds an infinity or a NaN from before
// proof: shared memory is undefined at the start of a block (CUDA guide); after a kernel that left NaN there, borders of y are NaN
// assay: launch conv grid=(ceil_div(width, 16), ceil_div(height, 16), batch * out_channels) block=(18, 18) args=(x, weight, y, in_channels, out_channels, height, width)

__global__ void conv(const float* x, const float* weight, float* y, int C, int O, int H, int W)
{
    __shared__ float tile[18][18];
    const int r = blockIdx.y * 16 + threadIdx.y - 1, c = blockIdx.x * 16 + threadIdx.x - 1;
    const int b = blockIdx.z / O, o = blockIdx.z % O;
    const bool inside = r >= 0 && r < H && c >= 0 && c < W;
    float sum = 0.f;
    for (int i = 0; i < C; ++i) {
        if (inside) tile[threadIdx.y][threadIdx.x] = x[(((size_t)b * C + i) * H + r) * W + c];
        __syncthreads();
        if (inside && threadIdx.y > 0 && threadIdx.y < 17 && threadIdx.x > 0 && threadIdx.x < 17) {
            const float* f = weight + ((size_t)o * C + i) * 9;
            for (int s = 0; s < 3; ++s)
                for (int t = 0; t < 3; ++t) {
                    const float valid = r + s - 1 >= 0 && r + s - 1 < H && c + t - 1 >= 0 && c + t - 1 < W ? 1.f : 0.f;
                    sum += valid * f[s * 3 + t] * tile[threadIdx.y + s - 1][threadIdx.x + t - 1];
                }
        }
        __syncthreads();
    }
    if (inside && threadIdx.y > 0 && threadIdx.y < 17 && threadIdx.x > 0 && threadIdx.x < 17)
        y[(((size_t)b * O + o) * H + r) * W + c] = sum;
}
