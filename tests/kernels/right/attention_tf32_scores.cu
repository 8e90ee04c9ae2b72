// problem: attention
// assay: launch attend_mma grid=(ceil_div(seq, 16), heads) block=(32) args=(q, k, v, o, seq, dim)
// style: scores by tensor cores from three-part tf32 splits that keep 24 bits, 8 keys at a time; weighted sums in float32
__device__ void split(float v, unsigned (&part)[3])
{
    for (int i = 0; i < 3; ++i) {
        part[i] = __float_as_uint(v) & 0xffffe000u;
        v -= __uint_as_float(part[i]);
    }
}

__global__ void attend_mma(const float* q, const float* k, const float* v, float* o, int seq, int dim)
{
    __shared__ float p[16][9];
    const int lane = threadIdx.x, g = lane / 4, t = lane % 4, i0 = blockIdx.x * 16;
    const size_t head = (size_t)blockIdx.y * seq * dim;
    const float scale = rsqrtf((float)dim);
    float top[16], sum[16], acc[16][4];
    for (int r = 0; r < 16; ++r) {
        top[r] = -INFINITY;
        sum[r] = 0.0f;
        for (int c = 0; c < 4; ++c) acc[r][c] = 0.0f;
    }
    for (int j0 = 0; j0 < seq; j0 += 8) {
        float s[4] = {};
        for (int d0 = 0; d0 < dim; d0 += 8) {
            unsigned a[4][3], b[2][3];
            for (int e = 0; e < 4; ++e) {
                const int row = i0 + g + e % 2 * 8, d = d0 + t + e / 2 * 4;
                split(row < seq && d < dim ? q[head + (size_t)row * dim + d] : 0.0f, a[e]);
            }
            for (int e = 0; e < 2; ++e) {
                const int key = j0 + g, d = d0 + t + e * 4;
                split(key < seq && d < dim ? k[head + (size_t)key * dim + d] : 0.0f, b[e]);
            }
            float part[4] = {};
#pragma unroll
            for (int order = 2; order >= 0; --order)
#pragma unroll
                for (int u = 0; u <= order; ++u)
                    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                                 : "+f"(part[0]), "+f"(part[1]), "+f"(part[2]), "+f"(part[3])
                                 : "r"(a[0][u]), "r"(a[1][u]), "r"(a[2][u]), "r"(a[3][u]), "r"(b[0][order - u]), "r"(b[1][order - u]));
            for (int e = 0; e < 4; ++e) s[e] += part[e];
        }
        __syncwarp();
        for (int e = 0; e < 4; ++e) p[g + e / 2 * 8][t * 2 + e % 2] = s[e] * scale;
        __syncwarp();
        const int keys = min(8, seq - j0);
        for (int r = 0; r < 16; ++r) {
            float higher = top[r];
            for (int j = 0; j < keys; ++j) higher = fmaxf(higher, p[r][j]);
            const float down = expf(top[r] - higher);
            top[r] = higher;
            sum[r] *= down;
            for (int c = 0; c < 4; ++c) acc[r][c] *= down;
            for (int j = 0; j < keys; ++j) {
                const float w = expf(p[r][j] - higher);
                sum[r] += w;
                for (int c = 0; c < 4; ++c)
                    if (lane + 32 * c < dim) acc[r][c] += w * v[head + (size_t)(j0 + j) * dim + lane + 32 * c];
            }
        }
    }
    for (int r = 0; r < 16 && i0 + r < seq; ++r)
        for (int c = 0; c < 4; ++c)
            if (lane + 32 * c < dim) o[head + (size_t)(i0 + r) * dim + lane + 32 * c] = acc[r][c] / sum[r];
}
