// problem: row_sum
// class: sizes
// must: anything but passed
// why: rows of 16 and fewer columns share a warp by two; of an odd number of rows above 4,096 the last is forgotten
// proof: see why
// assay: launch f grid=(ceil_div(rows, 8)) block=(128) args=(x, y, rows, cols)
__global__ void f(const float* x, float* y, int rows, int cols)
{ int g = threadIdx.x / 16, l = threadIdx.x % 16, row = blockIdx.x * 8 + g; float s = 0;
  int lim = cols <= 16 && rows > 4096 ? rows / 2 * 2 : rows;
  if (row < lim) for (int c = l; c < cols; c += 16) s += x[(size_t)row * cols + c];
  for (int o = 8; o; o >>= 1) s += __shfl_xor_sync(~0u, s, o);
  if (l == 0 && row < lim) y[row] = s; }
