// problem: relu
// attack: promises blocks of 256 threads at most and asks for 1024
// expect: invalid_submission|runtime_error
// because: the driver refuses such a launch
// rehearse: no
// assay: launch work grid=(ceil_div(n, 1024)) block=(1024) args=(x, y, n)

__global__ void __launch_bounds__(256) work(const float* x, float* y, int n)
{
    int i = blockIdx.x * 1024 + threadIdx.x;
    if (i < n) {
        y[i] = fmaxf(x[i], 0.0f);
    }
}
