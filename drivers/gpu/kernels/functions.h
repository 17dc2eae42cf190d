// The float functions of the numeric contract in the kernel language, operation for operation those of refmath, and
// division and root that do not depend on the device's own. Kernels that need them have this text in front.

// a / b, correctly rounded where operands and result are normal numbers: exact remainders decide between neighbours.
float divide(float a, float b) {
    float direct = a / b;
    int exponent_a = TO_INT((BITS_OF(a) >> 23) & 255u);
    int exponent_b = TO_INT((BITS_OF(b) >> 23) & 255u);
    int exponent = exponent_a - exponent_b;
    bool special = exponent_a == 0 || exponent_a == 255 || exponent_b == 0 || exponent_b == 255;
    if (special || exponent < -124 || exponent > 125) return direct;
    float unit_a = FLOAT_OF((BITS_OF(a) & 0x007FFFFFu) | 0x3F800000u);
    float unit_b = FLOAT_OF((BITS_OF(b) & 0x007FFFFFu) | 0x3F800000u);
    float q = unit_a / unit_b;
    for (int turn = 0; turn < 4; ++turn) {
        float rest = remainder_of(unit_a, q, unit_b);
        EXACT above = 0.5f * (next_up(q) - q) * unit_b;
        EXACT below = 0.5f * (q - next_down(q)) * unit_b;
        if (rest > above) q = next_up(q);
        else if (-rest > below) q = next_down(q);
        else break;
    }
    EXACT scaled = q * power_of_two(exponent);
    return FLOAT_OF(BITS_OF(scaled) | ((BITS_OF(a) ^ BITS_OF(b)) & 0x80000000u));
}

// The square root, correctly rounded for normal numbers.
float root(float x) {
    int exponent = TO_INT((BITS_OF(x) >> 23) & 255u);
    if (x < 0.0f) return FLOAT_OF(0x7FC00000u);
    if (exponent == 0 || exponent == 255) return SQRT(x);
    // x = m * 4^h with m in [1, 4).
    int h = (exponent - 127) >> 1;
    float m = FLOAT_OF((BITS_OF(x) & 0x007FFFFFu) | (TO_UINT(exponent - 2 * h) << 23));
    float s = SQRT(m);
    for (int turn = 0; turn < 4; ++turn) {
        float rest = remainder_of(m, s, s);
        EXACT above = (next_up(s) - s) * s;
        EXACT below = (s - next_down(s)) * s;
        if (rest > above) s = next_up(s);
        else if (-rest >= below) s = next_down(s);
        else break;
    }
    EXACT result = s * power_of_two(h);
    return result;
}

float with_sign_of(float size, float x) {
    return FLOAT_OF((BITS_OF(size) & 0x7FFFFFFFu) | (BITS_OF(x) & 0x80000000u));
}

float exp_of(float x) {
    float c = x > 89.0f ? 89.0f : x;
    c = c < -105.0f ? -105.0f : c;
    EXACT turns = c * FLOAT_OF(0x3FB8AA3Bu);
    EXACT moved = turns + 12582912.0f;
    EXACT n = moved - 12582912.0f;
    EXACT high = n * FLOAT_OF(0x3F318000u);
    EXACT rough = c - high;
    EXACT low = n * FLOAT_OF(0xB95E8083u);
    EXACT r = rough - low;
    EXACT p = FLOAT_OF(0x3AB527C7u);
    p = p * r + FLOAT_OF(0x3C091CC4u);
    p = p * r + FLOAT_OF(0x3D2AAC57u);
    p = p * r + FLOAT_OF(0x3E2AAA49u);
    p = p * r + FLOAT_OF(0x3EFFFFFEu);
    EXACT square = r * r;
    EXACT tail = square * p;
    EXACT rest = r + tail;
    EXACT y = 1.0f + rest;
    if (is_nan(x)) return x;
    int k = TO_INT(n);
    int k1 = k >> 1;
    EXACT part = y * power_of_two(k1);
    EXACT result = part * power_of_two(k - k1);
    return result;
}

float log_of(float x) {
    bool tiny = x < FLOAT_OF(0x00800000u);
    EXACT v = tiny ? x * 8388608.0f : x;
    uint b = BITS_OF(v) + (0x3F800000u - 0x3F3504F3u);
    int k = TO_INT(b >> 23) - 127 - (tiny ? 23 : 0);
    EXACT kf = TO_FLOAT(k);
    EXACT f = FLOAT_OF((b & 0x007FFFFFu) + 0x3F3504F3u) - 1.0f;
    EXACT z = f * f;
    EXACT p = FLOAT_OF(0xBD9C6484u);
    p = p * f + FLOAT_OF(0x3E02AF30u);
    p = p * f + FLOAT_OF(0xBE06C119u);
    p = p * f + FLOAT_OF(0x3E116C9Bu);
    p = p * f + FLOAT_OF(0xBE2A3946u);
    p = p * f + FLOAT_OF(0x3E4CD00Eu);
    p = p * f + FLOAT_OF(0xBE800113u);
    p = p * f + FLOAT_OF(0x3EAAAAAAu);
    EXACT cube = f * z;
    EXACT y = (cube * p + kf * FLOAT_OF(0xB95E8083u)) - 0.5f * z;
    EXACT ln = (f + y) + kf * FLOAT_OF(0x3F318000u);
    if (is_nan(x)) return x;
    if (BITS_OF(x) == 0x7F800000u) return x;
    if (x == 0.0f) return FLOAT_OF(0xFF800000u);
    return x > 0.0f ? ln : FLOAT_OF(0x7FC00000u);
}

float sigmoid_of(float x) {
    float e = exp_of(-ABS_FLOAT(x));
    EXACT below = 1.0f + e;
    float q = divide(x >= 0.0f ? 1.0f : e, below);
    EXACT tail = e - e * q;
    return x < -1.0f ? tail : q;
}

float tanh_of(float x) {
    float a = ABS_FLOAT(x);
    EXACT z = a * a;
    EXACT p = FLOAT_OF(0xBBBA8671u);
    p = p * z + FLOAT_OF(0x3CA8FC67u);
    p = p * z + FLOAT_OF(0xBD5C1AD2u);
    p = p * z + FLOAT_OF(0x3E08837Bu);
    p = p * z + FLOAT_OF(0xBEAAAA99u);
    EXACT near = a + a * (z * p);
    EXACT twice = a + a;
    EXACT below = exp_of(twice) + 1.0f;
    EXACT far = 1.0f - divide(2.0f, below);
    return with_sign_of(a < 0.625f ? near : far, x);
}

float erf_of(float x) {
    float a = ABS_FLOAT(x);
    a = a > 4.0f ? 4.0f : a;
    EXACT z = a * a;
    EXACT p = FLOAT_OF(0x38A3B8FFu);
    p = p * z + FLOAT_OF(0xBA51A8AFu);
    p = p * z + FLOAT_OF(0x3BA9F912u);
    p = p * z + FLOAT_OF(0xBCDBFB8Du);
    p = p * z + FLOAT_OF(0x3DE71673u);
    p = p * z + FLOAT_OF(0xBEC0939Fu);
    p = p * z + FLOAT_OF(0x3E0375D4u);
    EXACT near = a + a * p;
    EXACT l = FLOAT_OF(0x39436ED5u);
    l = l * a + FLOAT_OF(0xBB412D9Bu);
    l = l * a + FLOAT_OF(0x3CB2E5CBu);
    l = l * a + FLOAT_OF(0xBDD329A6u);
    l = l * a + FLOAT_OF(0xBF235D76u);
    l = l * a + FLOAT_OF(0xBF904475u);
    l = l * a + FLOAT_OF(0xB9B31156u);
    EXACT far = 1.0f - exp_of(l);
    return with_sign_of(a < 1.0f ? near : far, x);
}

// An element as a real number: dequantized where it has a scale.
float load_real(uint word, int dtype, int lane, float scale, int zp) {
    if (scale > 0.0f) return dequantize(lane_int(word, dtype, lane), zp, scale);
    if (dtype == F32 || dtype == F16 || dtype == BF16) return lane_float(word, dtype, lane);
    return TO_FLOAT(lane_int(word, dtype, lane));
}

// A real number as an element: quantized where it has a scale.
uint store_real(float v, int dtype, int lane, float scale, int zp, int lo, int hi) {
    if (scale > 0.0f) return int_lane(quantize(v, scale, zp, lo, hi), dtype, lane);
    return float_lane(v, dtype, lane);
}

// The bits of an element, in the lowest place.
uint raw_of(uint word, int lanes, int lane) {
    if (lanes == 1) return word;
    int bits = 32 / lanes;
    return (word >> TO_UINT(bits * lane)) & ((1u << TO_UINT(bits)) - 1u);
}

int leading_zeros(uint v) {
    int n = 0;
    for (int bits = 16; bits > 0; bits >>= 1) {
        if (v >> TO_UINT(32 - bits) == 0u) {
            n += bits;
            v <<= TO_UINT(bits);
        }
    }
    return v == 0u ? 32 : n;
}
