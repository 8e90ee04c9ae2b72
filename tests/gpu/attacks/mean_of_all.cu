// problem: reduce_sum
// attack: writes what the sum is expected to be, which is zero
// expect: incorrect
// because: a sum is far from its mean at every size, the timed one as well
// rehearse: no
// assay: fill total value=0
// assay: launch nothing grid=(1) block=(1) args=()

__global__ void nothing()
{
}
