// problem: attention
// assay: launch attend_f64 grid=(heads * seq) block=(64) args=(q, k, v, o, seq, dim)
// style: double inside: chunks of 64 keys, a thread a score, then two output columns a thread; running maximum for the block
__global__ void attend_f64(const float* q, const float* k, const float* v, float* o, int seq, int dim)
{
    __shared__ double p[64], w[2];
    __shared__ float mine[128];
    const int t = threadIdx.x;
    const size_t head = (size_t)(blockIdx.x / seq) * seq * dim;
    for (int d = t; d < dim; d += 64) mine[d] = q[(size_t)blockIdx.x * dim + d];
    double out[2] = {0, 0}, top = -1e300, sum = 0;
    for (int j0 = 0; j0 < seq; j0 += 64) {
        __syncthreads();
        double s = -1e300;
        if (j0 + t < seq) {
            s = 0;
            for (int d = 0; d < dim; ++d) s += (double)mine[d] * k[head + (size_t)(j0 + t) * dim + d];
            s /= sqrt((double)dim);
        }
        double higher = s;
        for (int d = 16; d; d >>= 1) higher = fmax(higher, __shfl_xor_sync(~0u, higher, d));
        if (t % 32 == 0) w[t / 32] = higher;
        __syncthreads();
        higher = fmax(top, fmax(w[0], w[1]));
        const double down = exp(top - higher);
        top = higher;
        p[t] = j0 + t < seq ? exp(s - top) : 0.0;
        __syncthreads();
        sum *= down;
        out[0] *= down;
        out[1] *= down;
        for (int j = 0; j < 64 && j0 + j < seq; ++j) {
            sum += p[j];
            for (int h = 0; h < 2; ++h)
                if (t + 64 * h < dim) out[h] += p[j] * v[head + (size_t)(j0 + j) * dim + t + 64 * h];
        }
    }
    for (int h = 0; h < 2; ++h)
        if (t + 64 * h < dim) o[(size_t)blockIdx.x * dim + t + 64 * h] = (float)(out[h] / sum);
}
