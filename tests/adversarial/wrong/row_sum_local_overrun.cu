// problem: row_sum
// class: memory (overrun)
// must: passed with a warning | anything but passed
// why: writes one behind the end of a local array into the next one, which holds what is needed later only by luck
// proof: C++: index 8 of an array of 8
// assay: launch rs grid=(ceil_div(rows, 64)) block=(64) args=(x, y, rows, cols)
__global__ void rs(const float* x, float* y, int rows, int cols)
{
    int row = blockIdx.x * 64 + threadIdx.x; if (row >= rows) return;
    volatile float ring[8]; volatile float spare[8];
    for (int i = 0; i < 8; i++) { ring[i] = 0.f; spare[i] = 0.f; }
    for (int c = 0; c < cols; c++) { int at = c % 9; ring[at] = ring[at] + x[(size_t)row * cols + c]; }
    float s = 0; for (int i = 0; i < 9; i++) s += ring[i];
    y[row] = s + 0.f * spare[7];
}
