# problem: conv2d
# style: copies of two permuted tensors, the channels behind everything else
import triton
import triton.language as tl


@triton.jit
def taps_kernel(x_ptr, taps_ptr, y_ptr, channels, filters, height, width, count, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    column, row = i % width, i // width % height
    filter, image = i // (width * height) % filters, i // (width * height * filters)
    acc = tl.zeros((BLOCK,), dtype=tl.float32)
    for tap in tl.static_range(9):
        r, c = row + tap // 3 - 1, column + tap % 3 - 1
        inside = (i < count) & (r >= 0) & (r < height) & (c >= 0) & (c < width)
        pixel = x_ptr + ((image * height + r) * width + c) * channels
        for channel in range(channels):
            x = tl.load(pixel + channel, mask=inside, other=0.0)
            w = tl.load(taps_ptr + (tap * channels + channel) * filters + filter, mask=i < count, other=0.0)
            acc += x * w
    tl.store(y_ptr + i, acc, mask=i < count)


def run(x, weight, y):
    _, channels, height, width = x.shape
    pixels, taps = x.permute(0, 2, 3, 1).contiguous(), weight.permute(2, 3, 1, 0).contiguous()
    count = y.numel()
    taps_kernel[(triton.cdiv(count, 256),)](
        pixels, taps, y, channels, weight.shape[0], height, width, count, BLOCK=256
    )
