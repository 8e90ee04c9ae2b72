// problem: relu
// style: several launches over slices of the data, through a filled temporary, then a copy to the output
// assay: temp positive float32 (n)
// assay: fill positive value=-1.5
// assay: launch keep_positive grid=(ceil_div(n, 64)) block=(64) args=(x, positive, 0, n // 2)
// assay: launch keep_positive grid=(ceil_div(n, 64)) block=(64) args=(x, positive, n // 2, n)
// assay: copy positive y

__global__ void keep_positive(const float* x, float* positive, int from, int to)
{
    const int i = from + blockIdx.x * blockDim.x + threadIdx.x;
    if (i < to) {
        positive[i] = fmaxf(x[i], 0.0f);
    }
}
