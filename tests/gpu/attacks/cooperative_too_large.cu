// problem: relu
// attack: a cooperative launch with more blocks than the GPU can hold at once
// expect: invalid_submission|runtime_error
// because: the driver refuses it
// rehearse: no
// assay: launch work grid=(100000) block=(1024) cooperative args=(x, y, n)

__global__ void work(const float* x, float* y, int n)
{
    int i = blockIdx.x * 1024 + threadIdx.x;
    if (i < n) {
        y[i] = fmaxf(x[i], 0.0f);
    }
}
