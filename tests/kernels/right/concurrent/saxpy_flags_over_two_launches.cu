// problem: saxpy
// assay: temp ready uint32 (ceil_div(n, 512))
// assay: temp scaled float32 (n)
// assay: launch scale grid=(ceil_div(n, 512)) block=(128) args=(x, scaled, ready, alpha, n, 7)
// assay: launch add grid=(ceil_div(n, 512)) block=(256) args=(y, scaled, ready, out, n, 7)
// style: stream order instead of fences: a launch leaves values and plain flags, the next one looks at both
__global__ void scale(const float* x, float* scaled, unsigned* ready, float alpha, int n, unsigned epoch)
{
    for (int i = blockIdx.x * 512 + threadIdx.x; i < min(n, (int)(blockIdx.x + 1) * 512); i += 128) scaled[i] = alpha * x[i];
    if (threadIdx.x == 64) ready[blockIdx.x] = epoch + blockIdx.x;
}

__global__ void add(const float* y, const float* scaled, const unsigned* ready, float* out, int n, unsigned epoch)
{
    const int other = gridDim.x - 1 - blockIdx.x;  // what another block wrote
    if (ready[other] != epoch + other) return;
    for (int i = other * 512 + threadIdx.x; i < min(n, (other + 1) * 512); i += 256) out[i] = scaled[i] + y[i];
}
