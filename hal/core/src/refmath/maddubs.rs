//! Proofs that `vpmaddubsw` is exact for a tile of weights (numerics.md section 5, "x86 without VNNI").
//!
//! The instruction multiplies u8 activations by s8 weights and adds neighbouring products with *s16 saturation*. The
//! packer asks these functions, once, which form is exact for every possible activation; a kernel then never checks.
//!
//! * (C1) A sum of products of u8 values with the weights of a lane stays within s16 for *all* activations iff the
//!   positive weights sum to at most 128 and the negative ones to at least -128: `255 * 128 = 32640 <= 32767`, and
//!   129 exceeds both limits. The bound is reached by activations 255 on one sign and 0 on the other.
//! * (C2) A K-group of 4 is *clean* under a pairing if both pairs of every column satisfy C1.
//! * (C3) Two groups form a *4-sum* (their s16 lanes are added before widening) if every combined lane satisfies C1.
//! * (C4) Sign transfer (`|a|` times `sign(w, a)`) is exact for s8 activations iff no weight is -128.

/// The largest sum of weights of one sign in an s16 lane.
pub const LANE_LIMIT: i32 = 128;

/// (C1) Whether an s16 lane that adds the products of these weights with u8 activations can never saturate.
pub fn lane_is_exact(weights: impl IntoIterator<Item = i8>) -> bool {
    let (positive, negative) = sign_sums(weights);
    positive <= LANE_LIMIT && negative <= LANE_LIMIT
}

/// The sum of the positive weights and the magnitude of the sum of the negative ones, saturating.
fn sign_sums(weights: impl IntoIterator<Item = i8>) -> (i32, i32) {
    weights.into_iter().fold((0_i32, 0_i32), |(positive, negative), w| {
        let w = i32::from(w);
        (positive.saturating_add(w.max(0)), negative.saturating_add((-w).max(0)))
    })
}

/// (C1) Whether one pair of products is exact.
#[inline]
pub fn pair_is_exact(a: i8, b: i8) -> bool {
    lane_is_exact([a, b])
}

/// How the four weights of a K-group are paired into two lanes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Pairing {
    /// (0 1) (2 3), the order in memory.
    Adjacent,
    /// (0 2) (1 3).
    Alternate,
    /// (0 3) (1 2).
    Nested,
}

impl Pairing {
    /// Every pairing, the cheapest first.
    pub const ALL: [Self; 3] = [Self::Adjacent, Self::Alternate, Self::Nested];

    /// The two pairs as indices into the group.
    pub const fn pairs(self) -> [[usize; 2]; 2] {
        match self {
            Self::Adjacent => [[0, 1], [2, 3]],
            Self::Alternate => [[0, 2], [1, 3]],
            Self::Nested => [[0, 3], [1, 2]],
        }
    }
}

/// (C2) Whether a K-group (four weights per column) is clean under `pairing`.
pub fn group_is_clean(columns: &[[i8; 4]], pairing: Pairing) -> bool {
    columns.iter().all(|w| pairing.pairs().iter().all(|&[i, j]| pair_is_exact(w[i], w[j])))
}

/// (C2) The first pairing under which a K-group is clean.
pub fn clean_pairing(columns: &[[i8; 4]]) -> Option<Pairing> {
    Pairing::ALL.into_iter().find(|&pairing| group_is_clean(columns, pairing))
}

/// (C3) Whether two K-groups, each under its pairing, may share their s16 lanes.
///
/// The first pairs of both share a lane, and the second pairs. This implies that each group is clean. Groups of
/// different width never match.
pub fn groups_match(a: &[[i8; 4]], a_pairing: Pairing, b: &[[i8; 4]], b_pairing: Pairing) -> bool {
    let lanes = a_pairing.pairs().into_iter().zip(b_pairing.pairs());
    a.len() == b.len()
        && a.iter()
            .zip(b)
            .all(|(wa, wb)| lanes.clone().all(|([i, j], [k, l])| lane_is_exact([wa[i], wa[j], wb[k], wb[l]])))
}

/// (C4) Whether the sign-transfer form is exact for these weights and any s8 activation.
///
/// `2 * 128 * 127 = 32512` fits s16, so only the missing negative of -128 matters.
pub fn sign_transfer_is_exact(weights: impl IntoIterator<Item = i8>) -> bool {
    weights.into_iter().all(|w| w != i8::MIN)
}

/// (C1) Splits a lane's weights into two parts `w = kept + rest` so that `kept` is exact.
///
/// Weights are kept in order as far as the limit of their sign allows; what does not fit goes to `rest`. `rest` may
/// need another split (a pair of -128 leaves -128 and 0, which is exact).
pub fn split_lane<const N: usize>(weights: [i8; N]) -> ([i8; N], [i8; N]) {
    let (mut kept, mut rest) = ([0; N], [0; N]);
    let (mut positive, mut negative) = (LANE_LIMIT, LANE_LIMIT);
    for (i, &w) in weights.iter().enumerate() {
        let w = i32::from(w);
        let room = if w > 0 { &mut positive } else { &mut negative };
        let magnitude = w.abs().min(*room);
        *room -= magnitude;
        let part = magnitude * w.signum();
        kept[i] = part as i8;
        rest[i] = (w - part) as i8;
    }
    (kept, rest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::refmath::testing::Rng;

    /// The instruction: two u8 * s8 products added with s16 saturation.
    fn vpmaddubsw(x: [u8; 2], w: [i8; 2]) -> i32 {
        let sum = i32::from(x[0]) * i32::from(w[0]) + i32::from(x[1]) * i32::from(w[1]);
        sum.clamp(-32768, 32767)
    }

    /// Every activation vector that can be extreme: each value 0 or 255.
    fn corners<const N: usize>() -> impl Iterator<Item = [u8; N]> {
        (0..1_u32 << N).map(|mask| core::array::from_fn(|i| if mask >> i & 1 == 1 { 255 } else { 0 }))
    }

    fn pair_never_saturates(w: [i8; 2]) -> bool {
        corners::<2>().all(|x| {
            let exact = i32::from(x[0]) * i32::from(w[0]) + i32::from(x[1]) * i32::from(w[1]);
            vpmaddubsw(x, w) == exact
        })
    }

    #[test]
    fn c1_agrees_with_the_instruction_for_every_pair() {
        assert_eq!(vpmaddubsw([255, 255], [127, 127]), 32767, "the published wrong result");
        for a in i8::MIN..=i8::MAX {
            for b in i8::MIN..=i8::MAX {
                assert_eq!(pair_is_exact(a, b), pair_never_saturates([a, b]), "{a} {b}");
            }
        }
    }

    #[test]
    fn c2_tiles_of_extreme_weights() {
        for extreme in [i8::MIN, i8::MAX] {
            let tile = [[extreme; 4]; 16];
            assert_eq!(clean_pairing(&tile), None, "{extreme}");
            assert!(!groups_match(&tile, Pairing::Adjacent, &tile, Pairing::Adjacent));
        }
        assert!(!sign_transfer_is_exact([i8::MIN; 64]));
        assert!(sign_transfer_is_exact([i8::MAX; 64]));
        assert!(lane_is_exact([i8::MIN]) && lane_is_exact([i8::MAX]));
        // Extremes of opposite sign do not add up.
        assert!(lane_is_exact([i8::MIN, i8::MAX]));
        assert_eq!(clean_pairing(&[[64; 4]; 16]), Some(Pairing::Adjacent));
        assert_eq!(clean_pairing(&[[65; 4]; 16]), None);
        assert_eq!(clean_pairing(&[]), Some(Pairing::Adjacent), "nothing to saturate");
    }

    #[test]
    fn c2_pairing_is_chosen_for_all_columns() {
        assert_eq!(clean_pairing(&[[100, 100, 0, 0]]), Some(Pairing::Alternate));
        assert_eq!(clean_pairing(&[[100, 0, 100, 0]]), Some(Pairing::Adjacent));
        assert_eq!(clean_pairing(&[[100, 100, 0, 0], [100, 0, 100, 0]]), Some(Pairing::Nested));
        assert_eq!(clean_pairing(&[[100, 100, 0, 0], [100, 0, 100, 0], [100, 0, 0, 100]]), None);
        assert_eq!(clean_pairing(&[[100, 100, 100, 0]]), None);
    }

    #[test]
    fn c3_matched_groups_agree_with_the_instructions() {
        let mut rng = Rng::new(71);
        let (mut matched, mut unmatched) = (0, 0);
        for _ in 0..20_000 {
            let size = rng.int(10, 128);
            let mut group = || -> [i8; 4] { core::array::from_fn(|_| rng.int(-size, size - 1) as i8) };
            let (a, b) = (group(), group());
            let pairing = Pairing::ALL[rng.int(0, 2) as usize];
            let other = Pairing::ALL[rng.int(0, 2) as usize];
            // vpmaddubsw twice, vpaddw (which wraps), for each of the two lanes.
            let exact = corners::<8>().all(|x| {
                (0..2).all(|lane| {
                    let ([i, j], [k, l]) = (pairing.pairs()[lane], other.pairs()[lane]);
                    let first = vpmaddubsw([x[i], x[j]], [a[i], a[j]]);
                    let second = vpmaddubsw([x[4 + k], x[4 + l]], [b[k], b[l]]);
                    let got = i32::from((first as i16).wrapping_add(second as i16));
                    let product = |x: u8, w: i8| i32::from(x) * i32::from(w);
                    let want =
                        product(x[i], a[i]) + product(x[j], a[j]) + product(x[4 + k], b[k]) + product(x[4 + l], b[l]);
                    got == want
                })
            });
            assert_eq!(groups_match(&[a], pairing, &[b], other), exact, "{a:?} {b:?}");
            *(if exact { &mut matched } else { &mut unmatched }) += 1;
        }
        assert!(matched > 1000 && unmatched > 1000);
        assert!(!groups_match(&[[0; 4]], Pairing::Adjacent, &[], Pairing::Adjacent));
    }

    #[test]
    fn c4_sign_transfer_agrees_with_the_instructions() {
        // vpsignb negates with wrap-around, so -128 stays -128.
        let transferred = |a: i8, w: i8| match a.signum() {
            0 => 0,
            1 => w,
            _ => w.wrapping_neg(),
        };
        for w in i8::MIN..=i8::MAX {
            let exact = (i8::MIN..=i8::MAX).all(|a| {
                let got = vpmaddubsw([a.unsigned_abs(); 2], [transferred(a, w); 2]);
                got == 2 * i32::from(a) * i32::from(w)
            });
            assert_eq!(sign_transfer_is_exact([w]), exact, "{w}");
        }
    }

    #[test]
    fn split_parts_add_up_and_are_exact() {
        let mut rng = Rng::new(72);
        let check = |w: [i8; 2]| {
            let (kept, rest) = split_lane(w);
            assert!(lane_is_exact(kept) && lane_is_exact(rest), "{w:?}");
            for i in 0..2 {
                assert_eq!(i32::from(kept[i]) + i32::from(rest[i]), i32::from(w[i]));
            }
        };
        check([i8::MIN; 2]);
        check([i8::MAX; 2]);
        for _ in 0..20_000 {
            check([rng.int(-128, 127) as i8, rng.int(-128, 127) as i8]);
        }
        assert_eq!(split_lane([i8::MIN; 2]), ([-128, 0], [0, -128]));
        assert_eq!(split_lane([100, -50, 40]), ([100, -50, 28], [0, 0, 12]));
    }
}
