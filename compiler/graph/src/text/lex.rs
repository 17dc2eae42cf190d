//! Tokens of one line.

use ottava_hal::{Error, Result};

/// One token.
#[derive(Debug, Clone, PartialEq)]
pub enum Token {
    /// A plain word or a number.
    Word(String),
    /// A quoted string, unescaped.
    Quoted(String),
    /// One of `%()[]{},=:` or `::`.
    Mark(&'static str),
}

const MARKS: &[&str] = &["::", "%", "(", ")", "[", "]", "{", "}", ",", "=", ":"];

/// Splits a line; `line` is its number for messages.
pub fn lex(text: &str, line: usize) -> Result<Vec<Token>> {
    let mut tokens = Vec::new();
    let mut rest = text.trim_start();
    while !rest.is_empty() {
        let (token, n) = if rest.starts_with('"') { quoted(rest, line)? } else { mark_or_word(rest, line)? };
        tokens.push(token);
        rest = rest[n..].trim_start();
    }
    Ok(tokens)
}

fn mark_or_word(rest: &str, line: usize) -> Result<(Token, usize)> {
    let inside = |c: char| c.is_ascii_alphanumeric() || "_./:+-".contains(c);
    let starts_word = rest.starts_with(|c: char| inside(c) && c != ':');
    if !starts_word {
        let mark = MARKS.iter().find(|m| rest.starts_with(**m));
        return match mark {
            Some(m) => Ok((Token::Mark(m), m.len())),
            None => {
                let found = rest.chars().next().unwrap_or(' ');
                Err(Error::invalid(format!("line {line}: unexpected character `{found}`")))
            }
        };
    }
    let mut end = rest.find(|c| !inside(c)).unwrap_or(rest.len());
    // `domain::Op`: two colons end a word; a single one inside a name belongs to it.
    if let Some(i) = rest[..end].find("::") {
        end = i;
    }
    Ok((Token::Word(rest[..end].to_string()), end))
}

fn quoted(rest: &str, line: usize) -> Result<(Token, usize)> {
    let mut text = String::new();
    let mut chars = rest.char_indices().skip(1);
    while let Some((i, c)) = chars.next() {
        match c {
            '"' => return Ok((Token::Quoted(text), i + 1)),
            '\\' => text.push(match chars.next() {
                Some((_, 'n')) => '\n',
                Some((_, 'r')) => '\r',
                Some((_, 't')) => '\t',
                Some((_, c)) => c,
                None => break,
            }),
            c => text.push(c),
        }
    }
    Err(Error::invalid(format!("line {line}: a quoted string has no end")))
}
