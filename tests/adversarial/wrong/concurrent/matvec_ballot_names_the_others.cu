// problem: matvec
// class: schedule
// race: mask
// must: passed with a warning | anything but passed
// why: lanes with work take one branch and ballot with the full mask there, the others shuffle with the full mask behind it: two different operations wait for each other's lanes
// proof: CUDA guide: all non-exited threads named in the mask must execute the same intrinsic; the ballot's lanes and the shuffle's do not
// assay: launch mv grid=(ceil_div(m, 4)) block=(128) args=(a, x, y, m, k)

__global__ void mv(const float* a, const float* x, float* y, int m, int k)
{
    const int row = blockIdx.x * 4 + threadIdx.x / 32, lane = threadIdx.x % 32;
    if (row >= m) return;
    float s = 0.0f;
    unsigned some = 0xffffffffu;
    if (lane < k) {
        for (int j = lane; j < k; j += 32) s += a[(size_t)row * k + j] * x[j];
        some = __ballot_sync(0xffffffffu, s != 0.0f);  // are there any at all?
    }
    for (int d = 16; d; d >>= 1) s += __shfl_xor_sync(0xffffffffu, s, d);
    if (lane == 0) y[row] = some ? s : 0.0f;
}
