//! The nearest valid name, for messages about a name that does not exist.

/// "did you mean `x`?" or, where nothing is near, the list of what is valid.
pub(crate) fn hint<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> String {
    let all: Vec<&str> = candidates.into_iter().collect();
    let lower = name.to_lowercase();
    let scored = all.iter().map(|c| (strsim::damerau_levenshtein(&lower, &c.to_lowercase()), *c));
    let allowed = name.chars().count().max(3) / 3 + 1;
    match scored.min_by_key(|(distance, _)| *distance) {
        Some((distance, best)) if distance <= allowed => format!("did you mean `{best}`?"),
        _ => format!("valid here: {}", all.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_names_are_found_and_far_ones_listed() {
        let names = ["rows", "cols", "dataflow"];
        assert_eq!(hint("row", names), "did you mean `rows`?");
        assert_eq!(hint("DataFlaw", names), "did you mean `dataflow`?");
        assert_eq!(hint("qqqqqq", names), "valid here: rows, cols, dataflow");
    }
}
