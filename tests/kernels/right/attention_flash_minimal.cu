// problem: attention
// assay: launch flash_forward grid=(ceil_div(seq, 32), heads) block=(32) shared=((3 * 32 * dim + 32 * 33) * 4) args=(q, k, v, o, seq, dim)
// style: a minimal flash attention: Br = Bc = 32, Qi, Kj, Vj and S in one dynamic array, a thread a row of the tile
__global__ void flash_forward(const float* Q, const float* K, const float* V, float* O, const int N, const int d)
{
    const int Br = 32, Bc = 32;
    int tx = threadIdx.x;
    size_t qkv_offset = (size_t)blockIdx.y * N * d;
    const float softmax_scale = 1.0f / sqrtf((float)d);

    // Define SRAM for Q,K,V,S
    extern __shared__ float sram[];
    float* Kj = sram;
    float* Vj = &sram[Bc * d];
    float* Oi = &sram[2 * Bc * d];
    float* S = &sram[3 * Bc * d];

    const int row = blockIdx.x * Br + tx;
    for (int x = 0; x < d; x++) Oi[x * Br + tx] = 0.0f;
    float row_m = -INFINITY, row_l = 0.0f;

    for (int j = 0; j < N; j += Bc) {
        const int valid = min(Bc, N - j);
        __syncthreads();  // such that the previous tile is no longer in use
        for (int x = tx; x < valid * d; x += Br) {
            Kj[x] = K[qkv_offset + (size_t)j * d + x];
            Vj[x] = V[qkv_offset + (size_t)j * d + x];
        }
        __syncthreads();
        if (row >= N) continue;

        // S = QK^T, row_m = rowmax(S)
        float tile_m = -INFINITY;
        for (int y = 0; y < valid; y++) {
            float sum = 0;
            for (int x = 0; x < d; x++) sum += Q[qkv_offset + (size_t)row * d + x] * Kj[y * d + x];
            sum *= softmax_scale;
            S[tx * 33 + y] = sum;
            tile_m = fmaxf(tile_m, sum);
        }
        // P = exp(S - row_m), row_l = rowsum(P)
        const float new_m = fmaxf(row_m, tile_m), correction = expf(row_m - new_m);
        float tile_l = 0;
        for (int y = 0; y < valid; y++) {
            const float p = expf(S[tx * 33 + y] - new_m);
            S[tx * 33 + y] = p;
            tile_l += p;
        }
        for (int x = 0; x < d; x++) {
            float pv = 0;
            for (int y = 0; y < valid; y++) pv += S[tx * 33 + y] * Vj[y * d + x];
            Oi[x * Br + tx] = Oi[x * Br + tx] * correction + pv;
        }
        row_l = row_l * correction + tile_l;
        row_m = new_m;
    }
    if (row < N)
        for (int x = 0; x < d; x++) O[qkv_offset + (size_t)row * d + x] = Oi[x * Br + tx] / row_l;
}
