//! The nearest valid name, for messages about a name that does not exist.

/// The candidate that a person most likely meant; `None` if none is near.
pub fn nearest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let lower = name.to_lowercase();
    let scored = candidates.into_iter().map(|c| (strsim::damerau_levenshtein(&lower, &c.to_lowercase()), c));
    let (distance, best) = scored.min_by_key(|(d, _)| *d)?;
    let allowed = (name.chars().count().max(3)) / 3 + 1;
    (distance <= allowed).then_some(best)
}

/// "did you mean `x`?" or, where nothing is near, the list of what is valid.
pub fn hint<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> String {
    let all: Vec<&str> = candidates.into_iter().collect();
    match nearest(name, all.iter().copied()) {
        Some(best) => format!("did you mean `{best}`?"),
        None if all.is_empty() => "there is none".to_owned(),
        None => format!("valid here: {}", all.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_names_are_found_and_far_ones_are_not() {
        let names = ["devices", "drivers", "placement"];
        assert_eq!(nearest("device", names), Some("devices"));
        assert_eq!(nearest("Drivres", names), Some("drivers"));
        assert_eq!(nearest("x", names), None);
        assert_eq!(hint("qqqqqq", names), "valid here: devices, drivers, placement");
    }
}
