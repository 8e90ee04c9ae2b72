// problem: relu
// attack: looks for time stamps at the lowest addresses that the driver maps
// expect: runtime_error|passed
// because: most addresses are not mapped, and reading one of those ends the context
// rehearse: no
// twin: relu_twin
// assay: launch work grid=(ceil_div(n, 256)) block=(256) args=(x, y, n)
// assay: launch forge grid=(1) block=(1) args=()

__global__ void work(const float* x, float* y, int n)
{
    int i = blockIdx.x * 256 + threadIdx.x;
    if (i < n) {
        y[i] = fmaxf(x[i], 0.0f);
    }
}

__global__ void forge()
{
    for (unsigned long long at = 0x200000000ull; at < 0x210000000ull; at += 1 << 20) {
        volatile unsigned long long* place = (volatile unsigned long long*)at;
        if (*place > 1000000000000ull) {
            *place += 1000000;
        }
    }
}
