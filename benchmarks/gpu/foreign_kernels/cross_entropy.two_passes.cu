// expected: passed
// The largest logit taken off, one thread for each row.
// assay: launch cross_entropy grid=(ceil_div(batch_size, 64)) block=(64) args=(logits, targets, out, batch_size, classes)

extern "C" __global__ void cross_entropy(
    const float* logits, const long long* targets, float* out, int batch_size, int classes)
{
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= batch_size) return;
    const float* own = logits + row * classes;
    float most = own[0], sum = 0.0f;
    for (int i = 1; i < classes; ++i) most = fmaxf(most, own[i]);
    for (int i = 0; i < classes; ++i) sum += expf(own[i] - most);
    out[row] = logf(sum) - (own[targets[row]] - most);
}
