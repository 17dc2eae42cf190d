//! Where the keys of a RON text stand, found without parsing it: errors of a parser have a position and no key, and rules
//! about values have a key and no position.

/// A key with its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Key {
    /// The keys around it and itself, joined by dots; keys of maps without their quotes.
    pub path: String,
    /// Line and column of its first character, from 1.
    pub at: (usize, usize),
    /// Byte position behind its colon.
    value: usize,
}

/// The keys of a text in their order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Keys<'t> {
    text: &'t str,
    keys: Vec<Key>,
}

/// A word or a string that a colon may make a key.
struct Word {
    name: String,
    at: (usize, usize),
}

impl<'t> Keys<'t> {
    /// Finds the keys; comments and what stands in strings are none.
    pub fn of(text: &'t str) -> Self {
        let mut keys = Vec::new();
        let mut around: Vec<String> = Vec::new();
        let (mut word, mut open) = (None::<Word>, String::new());
        let mut scan = Scan { rest: text, line: 1, column: 1 };
        while let Some((token, at)) = scan.next() {
            match token.chars().next() {
                Some(':') => {
                    let Some(key) = word.take() else { continue };
                    let names = around.iter().chain([&key.name]).filter(|n| !n.is_empty());
                    let path = names.map(String::as_str).collect::<Vec<_>>().join(".");
                    keys.push(Key { path, at: key.at, value: text.len() - scan.rest.len() });
                    open = key.name;
                }
                Some('(' | '[' | '{') => around.push(std::mem::take(&mut open)),
                Some(')' | ']' | '}') => {
                    around.pop();
                    open.clear();
                }
                Some(',') => open.clear(),
                _ => word = Some(Word { name: token.trim_matches('"').to_owned(), at }),
            }
        }
        Self { text, keys }
    }

    /// Where a key stands, or else the nearest key around it.
    pub fn find(&self, path: &str) -> Option<(usize, usize)> {
        let found = self.keys.iter().find(|key| key.path == path).map(|key| key.at);
        found.or_else(|| self.find(path.rsplit_once('.')?.0))
    }

    /// The last key that begins before a position, which is the one whose value is read there, and that value as written.
    pub fn before(&self, at: (usize, usize)) -> Option<(&Key, &'t str)> {
        let key = self.keys.iter().rfind(|key| key.at < at)?;
        let value = self.text.get(key.value..)?.trim_start();
        let mut scan = Scan { rest: value, line: 1, column: 1 };
        let first = scan.next().map_or("", |(token, _)| token);
        let end = match first.chars().next() {
            Some('(' | '[' | '{' | ')' | ']' | '}' | ',') => first.len(),
            Some('"') => first.len(),
            _ => value.find([',', ')', ']', '}', '\n']).unwrap_or(value.len()),
        };
        Some((key, value.get(..end).unwrap_or(first).trim()))
    }
}

/// Words, strings and single characters of a text, without blanks and comments.
struct Scan<'t> {
    rest: &'t str,
    line: usize,
    column: usize,
}

impl<'t> Scan<'t> {
    fn next(&mut self) -> Option<(&'t str, (usize, usize))> {
        loop {
            let first = self.rest.chars().next()?;
            let at = (self.line, self.column);
            if first.is_whitespace() {
                self.take(first.len_utf8());
            } else if self.rest.starts_with("//") {
                self.take(self.rest.find('\n').unwrap_or(self.rest.len()));
            } else if self.rest.starts_with("/*") {
                self.take(self.rest.find("*/").map_or(self.rest.len(), |i| i + 2));
            } else if first == '"' {
                return Some((self.take(string(self.rest)), at));
            } else {
                let word = |c: char| c.is_alphanumeric() || "_.+-#".contains(c);
                let len = self.rest.find(|c| !word(c)).unwrap_or(self.rest.len()).max(first.len_utf8());
                return Some((self.take(len), at));
            }
        }
    }

    fn take(&mut self, len: usize) -> &'t str {
        let (taken, rest) = self.rest.split_at(len);
        self.rest = rest;
        for c in taken.chars() {
            (self.line, self.column) = if c == '\n' { (self.line + 1, 1) } else { (self.line, self.column + 1) };
        }
        taken
    }
}

/// Bytes of the string that a text begins with, quotes included.
fn string(text: &str) -> usize {
    let mut escaped = false;
    for (i, c) in text.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return i + 1,
            _ => {}
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_have_paths_and_places() {
        let text = "Npu(\n  // rows: 1\n  name: \"a: (b\", array: (rows: 8, cols: 9),\n  sram: (w: (bytes: 5)),\n  \
                    energy: Some((source: \"x\")), vector: (cycles: {\"add\": 1}), dram: Simple(latency: 3))";
        let keys = Keys::of(text);
        for (path, line, word) in [
            ("name", 3, "name"),
            ("array.cols", 3, "cols"),
            ("sram.w.bytes", 4, "bytes"),
            ("sram.a.bytes", 4, "sram"),
            ("energy.source", 5, "source"),
            ("vector.cycles.add", 5, "\"add"),
            ("dram.latency", 5, "latency"),
        ] {
            let column = text.lines().nth(line - 1).and_then(|l| l.find(word)).unwrap() + 1;
            assert_eq!(keys.find(path), Some((line, column)), "{path}");
        }
        assert_eq!(keys.find("clock_hz"), None);
        let (key, value) = keys.before((3, 40)).unwrap();
        assert_eq!((key.path.as_str(), value), ("array.cols", "9"));
        assert_eq!(keys.before((3, 10)).unwrap().1, "\"a: (b\"");
    }

    #[test]
    fn any_text_has_an_end() {
        for text in ["\"", "\"\\", "/*", "(:::", ":", "é:", "//", "a:\u{301}", "}{)(", "((((((a:1"] {
            let keys = Keys::of(text);
            assert!(keys.before((9, 9)).is_none_or(|(key, _)| !key.path.is_empty() || key.at.0 > 0));
        }
    }
}
