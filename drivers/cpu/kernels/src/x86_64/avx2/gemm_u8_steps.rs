//! The steps of window forms as assembly text, one row at a time: what [`super::gemm_u8`] and [`super::stripe_u8`] loop over.
//!
//! `{d}` points to the blocks of the step.

// One row of a step. `$c` accumulates, `$a` is the address of its window; ymm8 is all ones, ymm9 to ymm12 hold controls (and the weights of
// short steps), ymm13 to ymm15 are free.
macro_rules! load {
    ($a:literal) => {
        concat!("vbroadcasti128 ymm13, xmmword ptr [", $a, "]\n")
    };
}

/// A quad: `$t` and `$u` are scratch, `$u` may be the window itself.
macro_rules! quad {
    ($c:literal, $t:literal, $u:literal, $control:literal, $control2:literal, $w:literal, $w2:literal) => {
        concat!(
            "vpshufb ",
            $t,
            ", ymm13, ",
            $control,
            "\n",
            "vpshufb ",
            $u,
            ", ymm13, ",
            $control2,
            "\n",
            "vpmaddubsw ",
            $t,
            ", ",
            $t,
            ", ",
            $w,
            "\n",
            "vpmaddubsw ",
            $u,
            ", ",
            $u,
            ", ",
            $w2,
            "\n",
            "vpaddw ",
            $t,
            ", ",
            $t,
            ", ",
            $u,
            "\n",
            "vpmaddwd ",
            $t,
            ", ",
            $t,
            ", ymm8\n",
            "vpaddd ",
            $c,
            ", ",
            $c,
            ", ",
            $t,
            "\n",
        )
    };
}

/// A pair unit: `$t` is scratch and may be the window itself.
macro_rules! pair {
    ($c:literal, $t:literal, $control:literal, $w:literal) => {
        concat!(
            "vpshufb ",
            $t,
            ", ymm13, ",
            $control,
            "\n",
            "vpmaddubsw ",
            $t,
            ", ",
            $t,
            ", ",
            $w,
            "\n",
            "vpmaddwd ",
            $t,
            ", ",
            $t,
            ", ymm8\n",
            "vpaddd ",
            $c,
            ", ",
            $c,
            ", ",
            $t,
            "\n",
        )
    };
}

macro_rules! quad_quad_row {
    ($c:literal, $a:literal) => {
        concat!(
            load!($a),
            quad!($c, "ymm14", "ymm15", "ymm9", "ymm10", "ymmword ptr [{d} + 128]", "ymmword ptr [{d} + 160]"),
            quad!($c, "ymm14", "ymm13", "ymm11", "ymm12", "ymmword ptr [{d} + 192]", "ymmword ptr [{d} + 224]"),
        )
    };
}

macro_rules! quad_pairs_row {
    ($c:literal, $a:literal) => {
        concat!(
            load!($a),
            quad!($c, "ymm14", "ymm15", "ymm9", "ymm10", "ymmword ptr [{d} + 128]", "ymmword ptr [{d} + 160]"),
            pair!($c, "ymm15", "ymm11", "ymmword ptr [{d} + 192]"),
            pair!($c, "ymm13", "ymm12", "ymmword ptr [{d} + 224]"),
        )
    };
}

macro_rules! pairs_row {
    ($c:literal, $a:literal) => {
        concat!(
            load!($a),
            pair!($c, "ymm14", "ymm9", "ymmword ptr [{d} + 128]"),
            pair!($c, "ymm15", "ymm10", "ymmword ptr [{d} + 160]"),
            pair!($c, "ymm14", "ymm11", "ymmword ptr [{d} + 192]"),
            pair!($c, "ymm13", "ymm12", "ymmword ptr [{d} + 224]"),
        )
    };
}

macro_rules! quad_row {
    ($c:literal, $a:literal) => {
        concat!(load!($a), quad!($c, "ymm14", "ymm13", "ymm9", "ymm10", "ymm11", "ymm12"))
    };
}

macro_rules! pair_row {
    ($c:literal, $a:literal) => {
        concat!(load!($a), pair!($c, "ymm13", "ymm9", "ymm10"))
    };
}

macro_rules! pick_row {
    ($c:literal, $a:literal) => {
        concat!(
            load!($a),
            "vpshufb ymm13, ymm13, ymm9\n",
            "vpmaddwd ymm13, ymm13, ymm10\n",
            "vpaddd ",
            $c,
            ", ",
            $c,
            ", ymm13\n",
        )
    };
}

/// The first two or four blocks of a step.
macro_rules! hold {
    (2) => {
        "vmovdqa ymm9, ymmword ptr [{d}]\nvmovdqa ymm10, ymmword ptr [{d} + 32]"
    };
    (4) => {
        concat!(hold!(2), "\nvmovdqa ymm11, ymmword ptr [{d} + 64]\nvmovdqa ymm12, ymmword ptr [{d} + 96]")
    };
}
