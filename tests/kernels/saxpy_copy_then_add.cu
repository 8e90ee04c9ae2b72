// problem: saxpy
// style: a copy directive first, then an update in place of the output
// assay: copy y out
// assay: launch accumulate grid=(ceil_div(n, 256)) block=(256) args=(x, out, alpha, n)

__global__ void accumulate(const float* x, float* out, float alpha, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        out[i] += alpha * x[i];
    }
}
