// Multiplication by Q31 multipliers whose accumulators may be as large as they like: what leaves 32 bits saturates.

int saturating_left(int v, int shift) {
    int limit = 0x7FFFFFFF >> shift;
    if (v > limit) return 0x7FFFFFFF;
    if (v < -limit - 1) return TO_INT(0x80000000u);
    return TO_INT(TO_UINT(v) << TO_UINT(shift));
}

int saturating_product(int a, int b) {
    int low = TO_INT(TO_UINT(a) * TO_UINT(b));
    int high = mul_high(a, b);
    if (high == (low >> 31)) return low;
    return high < 0 ? TO_INT(0x80000000u) : 0x7FFFFFFF;
}

// Q31 of refmath: `mode` is one of the two Q31 modes, `shift` -31..31.
int scale_q31(int acc, int mode, int multiplier, int shift) {
    if (mode == Q31_SINGLE) return single_rounding(acc, multiplier, shift);
    int left = shift > 0 ? shift : 0;
    int right = shift < 0 ? -shift : 0;
    return rounding_shift(doubling_high(saturating_left(acc, left), multiplier), right);
}
