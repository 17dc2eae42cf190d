// The arithmetic of the numeric contract in the kernel language: what refmath does, operation for operation, on devices
// whose only promises are correctly rounded +, -, * and integers. Division is never trusted.

// Element types; the numbers are those of the plugin ABI.
#define S8 3
#define U8 4
#define S16 5
#define U16 6
#define S32 7
#define S64 8
#define F16 9
#define BF16 10
#define F32 11
#define BOOL 12

// Requantization modes (numerics.md section 3).
#define FP32_RNE 1
#define Q31_DOUBLE 2
#define Q31_SINGLE 3

// Elements in one 32-bit word.
int per_word(int dtype) {
    if (dtype == S8 || dtype == U8 || dtype == BOOL) return 4;
    if (dtype == S32 || dtype == F32) return 1;
    return 2;
}

// An integer element of a word.
int lane_int(uint word, int dtype, int lane) {
    if (dtype == S8) return TO_INT(word << (24 - 8 * lane)) >> 24;
    if (dtype == U8 || dtype == BOOL) return TO_INT((word >> (8 * lane)) & 255u);
    if (dtype == S16) return TO_INT(word << (16 - 16 * lane)) >> 16;
    if (dtype == U16) return TO_INT((word >> (16 * lane)) & 65535u);
    return TO_INT(word);
}

// An integer element at its place in a word, the other bits 0.
uint int_lane(int value, int dtype, int lane) {
    if (dtype == S8 || dtype == U8 || dtype == BOOL) return (TO_UINT(value) & 255u) << (8 * lane);
    if (dtype == S16 || dtype == U16) return (TO_UINT(value) & 65535u) << (16 * lane);
    return TO_UINT(value);
}

// A float element of a word.
float lane_float(uint word, int dtype, int lane) {
    if (dtype == F16) return lane == 0 ? HALF_LOW(word) : HALF_HIGH(word);
    if (dtype == BF16) return FLOAT_OF(lane == 0 ? word << 16 : word & 0xFFFF0000u);
    return FLOAT_OF(word);
}

// bf16 of a float: to nearest, ties to even; a NaN stays one, and quiet.
uint bf16_bits(float value) {
    uint bits = BITS_OF(value);
    if ((bits & 0x7FFFFFFFu) > 0x7F800000u) return (bits >> 16) | 0x40u;
    return (bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16;
}

// A float element at its place in a word, the other bits 0.
uint float_lane(float value, int dtype, int lane) {
    if (dtype == F16) return lane == 0 ? HALF_PAIR(value, 0.0f) & 0xFFFFu : HALF_PAIR(0.0f, value) & 0xFFFF0000u;
    if (dtype == BF16) return bf16_bits(value) << (16 * lane);
    return BITS_OF(value);
}

// The dot product of two words of four s8.
int dot_words(uint a, uint b) {
#ifdef DOT_WORDS
    return DOT_WORDS(a, b);
#else
    int p0 = (TO_INT(a << 24) >> 24) * (TO_INT(b << 24) >> 24);
    int p1 = (TO_INT(a << 16) >> 24) * (TO_INT(b << 16) >> 24);
    int p2 = (TO_INT(a << 8) >> 24) * (TO_INT(b << 8) >> 24);
    int p3 = (TO_INT(a) >> 24) * (TO_INT(b) >> 24);
    return p0 + p1 + p2 + p3;
#endif
}

// By the bits: a compiler may take every number for equal to itself.
bool is_nan(float v) { return (BITS_OF(v) & 0x7FFFFFFFu) > 0x7F800000u; }

int clamp_int(int v, int lo, int hi) { return v < lo ? lo : (v > hi ? hi : v); }

// Round to nearest, ties to even, add the zero point, saturate. The clamp comes first, so that the conversion is always
// of a number that fits; NaN becomes the least value.
int round_to_int(float t, int zp, int lo, int hi) {
    float low = TO_FLOAT(lo - zp);
    float high = TO_FLOAT(hi - zp);
    float above = t > low && !is_nan(t) ? t : low;
    return TO_INT(ROUND_EVEN(above < high ? above : high)) + zp;
}

// 2^e as a float, e in -126..127.
float power_of_two(int e) { return FLOAT_OF(TO_UINT(e + 127) << 23); }

// What is left of a - q*b, exactly, for b in [1, 2), |q| < 2^22 and |a - q*b| small against a (Dekker's product: Veltkamp
// splits both factors into halves whose products are exact).
float remainder_of(float a, float q, float b) {
    EXACT split_q = 4097.0f * q;
    EXACT upper_q = split_q - q;
    EXACT high_q = split_q - upper_q;
    EXACT low_q = q - high_q;
    EXACT split_b = 4097.0f * b;
    EXACT upper_b = split_b - b;
    EXACT high_b = split_b - upper_b;
    EXACT low_b = b - high_b;
    EXACT r0 = high_q * high_b;
    EXACT r1 = high_q * low_b;
    EXACT r2 = low_q * high_b;
    EXACT r3 = low_q * low_b;
    EXACT left = a - r0;
    EXACT left1 = left - r1;
    EXACT left2 = left1 - r2;
    EXACT left3 = left2 - r3;
    return left3;
}

// The neighbour of a positive normal float.
float next_up(float v) { return FLOAT_OF(BITS_OF(v) + 1u); }
float next_down(float v) { return FLOAT_OF(BITS_OF(v) - 1u); }

// fl32(x / scale) where it is between 2^-3 and 2^20; below and above any value on the same side of these bounds, which
// is all that a following rounding to an integer of at most 16 bits can see. `scale` is positive and normal.
// The device's own division may be wrong in its last bits: exact remainders decide between neighbours, and no quotient
// of two floats lies half way between two floats.
float quotient(float x, float scale) {
    if (is_nan(x)) return x;
    float size = ABS_FLOAT(x);
    int exponent = TO_INT((BITS_OF(scale) >> 23) & 255u) - 127;
    EXACT unit = FLOAT_OF((BITS_OF(scale) & 0x007FFFFFu) | 0x3F800000u);
    int size_exponent = TO_INT((BITS_OF(size) >> 23) & 255u) - 127;
    if (size_exponent - exponent > 20) return x < 0.0f ? -2097152.0f : 2097152.0f;
    if (size_exponent - exponent < -4) return 0.0f;
    // 2^-exponent, in two exact steps: it can be below the normal range.
    int half_way = -exponent / 2;
    EXACT scaled_half = size * power_of_two(half_way);
    EXACT scaled = scaled_half * power_of_two(-exponent - half_way);
    float q = scaled / unit;
    for (int step = 0; step < 4; ++step) {
        float rest = remainder_of(scaled, q, unit);
        EXACT above = 0.5f * (next_up(q) - q) * unit;
        EXACT below = 0.5f * (q - next_down(q)) * unit;
        if (rest > above) q = next_up(q);
        else if (-rest > below) q = next_down(q);
        else break;
    }
    return x < 0.0f ? -q : q;
}

// QuantizeLinear (numerics.md section 2).
int quantize(float x, float scale, int zp, int lo, int hi) { return round_to_int(quotient(x, scale), zp, lo, hi); }

// DequantizeLinear.
float dequantize(int q, int zp, float scale) {
    EXACT product = TO_FLOAT(q - zp) * scale;
    return product;
}

// (a*b + 2^30) >> 31 of two 32-bit numbers, by halves of the product.
int doubling_high(int a, int b) {
    if (a == b && a == TO_INT(0x80000000u)) return 0x7FFFFFFF;
    uint low = TO_UINT(a) * TO_UINT(b);
    int high = mul_high(a, b);
    uint rounded = low + 0x40000000u;
    if (rounded < low) high += 1;
    return TO_INT((TO_UINT(high) << 1) | (rounded >> 31));
}

// Division by 2^e, half away from zero.
int rounding_shift(int x, int e) {
    if (e == 0) return x;
    int mask = TO_INT((1u << TO_UINT(e)) - 1u);
    int rest = x & mask;
    int limit = (mask >> 1) + (x < 0 ? 1 : 0);
    return (x >> e) + (rest > limit ? 1 : 0);
}

// (a*m + 2^(30-s)) >> (31-s), one rounding; the result is saturated to 32 bits. s is -31..30, m is not negative.
int single_rounding(int a, int m, int s) {
    int shift = 31 - s;
    uint low = TO_UINT(a) * TO_UINT(m);
    int high = mul_high(a, m);
    // + 2^(shift-1)
    if (shift >= 33) {
        high += TO_INT(1u << TO_UINT(shift - 33));
    } else {
        uint rounded = low + (1u << TO_UINT(shift - 1));
        if (rounded < low) high += 1;
        low = rounded;
    }
    if (shift >= 32) return shift == 32 ? high : high >> (shift - 32);
    int top = high >> (shift - 1);
    if (top > 0) return 0x7FFFFFFF;
    if (top < -1) return TO_INT(0x80000000u);
    int value = TO_INT((TO_UINT(high) << TO_UINT(32 - shift)) | (low >> TO_UINT(shift)));
    // The sign bit must agree with what was cut off.
    if (top == 0 && value < 0) return 0x7FFFFFFF;
    if (top == -1 && value >= 0) return TO_INT(0x80000000u);
    return value;
}

// A zero point is added and the sum saturated; the first clamp only keeps the addition within 32 bits.
int add_clamped(int v, int zp, int lo, int hi) { return clamp_int(clamp_int(v, -0x40000000, 0x3FFFFFFF) + zp, lo, hi); }

// Requantization of a 32-bit sum (numerics.md section 3). `multiplier` holds the bits of an f32, or a Q31 multiplier.
int requantize(int acc, int mode, uint multiplier, int shift, int zp, int lo, int hi) {
    if (mode == FP32_RNE) {
        EXACT t = TO_FLOAT(acc) * FLOAT_OF(multiplier);
        return round_to_int(t, zp, lo, hi);
    }
    int m = TO_INT(multiplier);
    if (mode == Q31_SINGLE) return add_clamped(single_rounding(acc, m, shift), zp, lo, hi);
    int left = shift > 0 ? shift : 0;
    int right = shift < 0 ? -shift : 0;
    int h = doubling_high(TO_INT(TO_UINT(acc) << TO_UINT(left)), m);
    return add_clamped(rounding_shift(h, right), zp, lo, hi);
}
