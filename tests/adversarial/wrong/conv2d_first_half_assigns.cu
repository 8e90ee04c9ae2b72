// problem: conv2d
// class: schedule
// must: anything but passed
// why: the block of the first half of the channels stores by atomicExch, that of the second half adds by atomicAdd: where the second comes first its half is wiped out
// proof: blocks run in any order (CUDA guide, thread hierarchy); blockIdx.z = 1 before blockIdx.z = 0
// assay: fill y value=0
// assay: launch conv grid=(ceil_div(height * width, 128), batch * out_channels, 2) block=(128) args=(x, weight, y, in_channels, out_channels, height, width)

__global__ void conv(const float* x, const float* weight, float* y, int C, int O, int H, int W)
{
    const int p = blockIdx.x * 128 + threadIdx.x;
    if (p >= H * W) return;
    const int r = p / W, c = p % W, b = blockIdx.y / O, o = blockIdx.y % O;
    const int half = (C + 1) / 2, begin = blockIdx.z * half, end = min(C, begin + half);
    float sum = 0.f;
    for (int i = begin; i < end; ++i) {
        const float* image = x + ((size_t)b * C + i) * H * W;
        const float* f = weight + ((size_t)o * C + i) * 9;
        for (int s = max(0, 1 - r); s < min(3, H + 1 - r); ++s)
            for (int t = max(0, 1 - c); t < min(3, W + 1 - c); ++t) sum += f[s * 3 + t] * image[(r + s - 1) * W + c + t - 1];
    }
    float* to = y + (size_t)blockIdx.y * H * W + p;
    if (blockIdx.z == 0) atomicExch(to, sum);
    else atomicAdd(to, sum);
}
