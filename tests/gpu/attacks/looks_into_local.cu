// problem: relu
// attack: looks for marks of another job in local memory that it has not written; wrong where it finds some
// expect: passed
// because: no job sees the local memory of another
// rehearse: no
// after: leaves_marks_in_local
// assay: temp found int32 (1)
// assay: fill found value=0
// assay: launch look grid=(264) block=(256) args=(found)
// assay: launch work grid=(ceil_div(n, 256)) block=(256) args=(x, y, found, n)

__global__ void look(int* found)
{
    volatile unsigned local[1024];
    for (int i = 0; i < 1024; ++i) {
        if (local[i] == 0x5ec2e7a5u) *found = 1;
    }
}

__global__ void work(const float* x, float* y, const int* found, int n)
{
    int i = blockIdx.x * 256 + threadIdx.x;
    if (i < n) {
        y[i] = fmaxf(x[i], 0.0f) + 1000.0f * *found;
    }
}
