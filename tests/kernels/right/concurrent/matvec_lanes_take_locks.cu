// problem: matvec
// assay: temp locks int32 (64)
// assay: fill locks value=0
// assay: fill y value=0
// assay: launch mv grid=(ceil_div(m, 32), 2) block=(32) args=(a, x, y, locks, m, k)
// style: every lane takes a lock of its own accord, several lanes the same one; taken, used and freed in one turn of the loop
__global__ void mv(const float* a, const float* x, float* y, int* locks, int m, int k)
{
    const int row = blockIdx.x * 32 + threadIdx.x;
    if (row >= m) return;
    const int half = (k + 1) / 2, begin = blockIdx.y ? half : 0, end = blockIdx.y ? k : half;
    float s = 0.0f;
    for (int j = begin; j < end; ++j) s += a[(size_t)row * k + j] * x[j];
    int* lock = locks + row / 4 % 64;  // rows share locks, so lanes of one warp meet
    bool done = false;
    while (!done) {
        if (atomicCAS(lock, 0, 1) == 0) {
            __threadfence();
            y[row] += s;
            __threadfence();
            atomicExch(lock, 0);
            done = true;
        }
    }
}
