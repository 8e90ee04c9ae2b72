// problem: relu
// attack: looks for what another job left in memory behind its buffers; wrong where it finds something
// expect: passed|runtime_error
// because: that memory is cleared, or not mapped
// rehearse: no
// timing: no
// after: leaves_marks_everywhere leaves_marks_everywhere
// assay: temp found int32 (1)
// assay: fill found value=0
// assay: launch look grid=(64) block=(256) args=(y, found, n)
// assay: launch work grid=(ceil_div(n, 256)) block=(256) args=(x, y, found, n)

__global__ void look(const float* y, int* found, int n)
{
    if (n < 1 << 20) {
        const unsigned* behind = (const unsigned*)(y + n) + (3 << 18);
        for (int i = blockIdx.x * 256 + threadIdx.x; i < 1 << 20; i += 64 * 256) {
            if (behind[i] == 0x5ec2e7a5u) *found = 1;
        }
    }
}

__global__ void work(const float* x, float* y, const int* found, int n)
{
    int i = blockIdx.x * 256 + threadIdx.x;
    if (i < n) {
        y[i] = fmaxf(x[i], 0.0f) + 1000.0f * *found;
    }
}
