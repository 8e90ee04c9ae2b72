// problem: relu
// class: schedule
// race: lost update
// must: anything but passed
// why: tiles are claimed in a bitmap by a look and then a plain store of the word with one more bit: two blocks that claim neighbours at once lose a bit or claim the same tile; done twice, negative elements come out positive
// proof: atomicOr's own result must decide; two blocks that look before either stores
// assay: temp bitmap uint32 (ceil_div(ceil_div(n, 128), 32))
// assay: fill bitmap value=0
// assay: copy x y
// assay: launch claim grid=(48) block=(128) args=(x, y, bitmap, n)

__global__ void claim(const float* x, float* y, volatile unsigned* bitmap, int n)
{
    __shared__ bool mine;
    const int tiles = (n + 127) / 128;
    for (int k = 0; k < tiles; ++k) {
        const int tile = (int)((k + (long long)blockIdx.x * tiles / 48) % tiles);
        __syncthreads();
        if (threadIdx.x == 0) {
            const unsigned word = bitmap[tile / 32], bit = 1u << tile % 32;
            mine = !(word & bit);
            if (mine) bitmap[tile / 32] = word | bit;
        }
        __syncthreads();
        const int i = tile * 128 + threadIdx.x;
        if (mine && i < n) y[i] -= fminf(x[i], 0.0f);
    }
}
