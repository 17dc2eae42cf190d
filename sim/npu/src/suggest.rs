//! Text of users in messages: an excerpt of it, and the nearest valid name.

/// Characters of an excerpt; longer names are not compared with valid ones.
const EXCERPT: usize = 60;

/// The text as messages quote it: short, on one line.
pub(crate) fn excerpt(text: &str) -> String {
    let mut chars = text.chars();
    let mut short: String = chars.by_ref().take(EXCERPT).collect();
    if short.contains(char::is_control) {
        short = short.escape_debug().collect();
    }
    if chars.next().is_some() {
        short.push('…');
    }
    short
}

/// Whether a text is too long to be a misspelt name.
pub(crate) fn is_long(text: &str) -> bool {
    text.chars().nth(EXCERPT).is_some()
}

/// "did you mean `x`?" or, where nothing is near, the list of what is valid.
pub(crate) fn hint<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> String {
    let all: Vec<&str> = candidates.into_iter().collect();
    if is_long(name) {
        return format!("valid here: {}", all.join(", "));
    }
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

    #[test]
    fn excerpts_are_short_and_on_one_line() {
        assert_eq!(excerpt("a b"), "a b");
        assert_eq!(excerpt("a\nb"), "a\\nb");
        assert_eq!(excerpt(&"é".repeat(60)), "é".repeat(60));
        assert_eq!(excerpt(&"é".repeat(61)), "é".repeat(60) + "…");
        assert!(hint(&"rows".repeat(1 << 20), ["rows"]).starts_with("valid here"));
    }
}
