// problem: relu
// attack: a grid of two thousand million blocks, each of which ends, but not in anybody's time
// expect: timeout
// because: a watch-dog outside the launching process ends it
// rehearse: no
// run_timeout_s: 1.5
// assay: launch work grid=(2147483647) block=(1024) args=(x, y, n)

__global__ void work(const float* x, float* y, int n)
{
    int i = blockIdx.x * 1024 + threadIdx.x;
    if (i >= 0 && i < n && blockIdx.x < 1 << 21) {
        y[i] = fmaxf(x[i], 0.0f);
    }
    __nanosleep(1000);
}
