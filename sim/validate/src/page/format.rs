//! Numbers as people read them.

/// A number with thin spaces between groups of three digits.
pub(super) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() * 2);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push('\u{202f}');
        }
        text.push(digit);
    }
    text
}

/// A duration with the unit that fits it.
pub(super) fn duration(ns: u64) -> String {
    let ns = ns as f64;
    match ns {
        _ if ns < 1e3 => format!("{ns} ns"),
        _ if ns < 1e6 => format!("{} µs", significant(ns / 1e3)),
        _ if ns < 1e9 => format!("{} ms", significant(ns / 1e6)),
        _ => format!("{} s", significant(ns / 1e9)),
    }
}

/// About four digits of a number.
pub(super) fn significant(value: f64) -> String {
    let size = value.abs();
    match size {
        _ if !value.is_finite() => "n/a".to_owned(),
        0.0 => "0".to_owned(),
        _ if !(1e-3..1e6).contains(&size) => format!("{value:.2e}"),
        _ if size < 1.0 => format!("{value:.4}"),
        _ if size < 10.0 => format!("{value:.3}"),
        _ if size < 100.0 => format!("{value:.2}"),
        _ if size < 1000.0 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    }
}

/// A signal-to-noise ratio; infinity means that nothing differs.
pub(super) fn decibel(value: f64) -> String {
    match value {
        f64::INFINITY => "exact".to_owned(),
        _ if value.is_finite() => format!("{value:.1}"),
        _ => "n/a".to_owned(),
    }
}

/// A cosine; what is not 1 is not shown as 1.
pub(super) fn cosine(value: f64) -> String {
    match value {
        _ if !value.is_finite() => "n/a".to_owned(),
        _ if (0.999_999_5..1.0).contains(&value) => "> 0.999999".to_owned(),
        _ => format!("{value:.6}"),
    }
}

/// A share as a percentage.
pub(super) fn percent(share: f64) -> String {
    if share.is_finite() { format!("{:.1} %", share * 100.0) } else { "n/a".to_owned() }
}

/// A number by which a column is sorted: finite, infinity behind all others.
pub(super) fn sort_key(value: f64) -> f64 {
    if value.is_nan() { -1e300 } else { value.clamp(-1e299, 1e299) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_units_and_groups() {
        assert_eq!(grouped(1_234_567), "1\u{202f}234\u{202f}567");
        assert_eq!(grouped(12), "12");
        assert_eq!([duration(999), duration(1500), duration(2_000_000)], ["999 ns", "1.500 µs", "2.000 ms"]);
        assert_eq!([significant(0.0), significant(0.25), significant(1e-7)], ["0", "0.2500", "1.00e-7"]);
        assert_eq!(percent(0.825), "82.5 %");
    }

    #[test]
    fn what_is_not_a_number_is_said() {
        assert_eq!([decibel(f64::INFINITY), decibel(f64::NAN), decibel(31.25)], ["exact", "n/a", "31.2"]);
        assert_eq!([cosine(0.999_999_9), cosine(1.0), cosine(f64::NAN)], ["> 0.999999", "1.000000", "n/a"]);
        assert!(sort_key(f64::INFINITY) > sort_key(200.0) && sort_key(f64::NAN) < sort_key(-200.0));
    }
}
