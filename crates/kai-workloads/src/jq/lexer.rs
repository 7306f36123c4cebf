//! Text to tokens.

use super::JqError;

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Token {
    /// `.name`.
    Field(String),
    /// `.` alone.
    Dot,
    /// A name or keyword.
    Word(String),
    /// A number literal.
    Number(f64),
    /// A string literal, without its quotes.
    Text(String),
    /// An operator or other mark.
    Mark(&'static str),
}

/// Operators, the longest first so that `//=` is not read as `//`.
const MARKS: [&str; 34] = [
    "//=", "|=", "+=", "-=", "*=", "/=", "%=", "..", "//", "==", "!=", "<=", ">=", "|", ",", "+",
    "-", "*", "/", "%", "<", ">", "=", "(", ")", "[", "]", "{", "}", ":", ";", "?", "$", "@",
];

pub(super) fn tokens(text: &str) -> Result<Vec<Token>, JqError> {
    let mut tokens = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        let (token, tail) = if first.is_ascii_digit() {
            number(rest)?
        } else if first == '"' {
            let (text, tail) = string(&rest[1..])?;
            (Token::Text(text), tail)
        } else if is_word_start(first) {
            let (word, tail) = word(rest);
            (Token::Word(word.to_owned()), tail)
        } else if let Some(mark) = MARKS.iter().find(|mark| rest.starts_with(**mark)) {
            (Token::Mark(mark), &rest[mark.len()..])
        } else if first == '.' {
            after_dot(&rest[1..])
        } else {
            return Err(JqError::new(format!("unexpected {first:?}")));
        };
        tokens.push(token);
        rest = tail.trim_start();
    }
    Ok(tokens)
}

fn after_dot(rest: &str) -> (Token, &str) {
    match rest.chars().next() {
        Some(first) if is_word_start(first) => {
            let (name, tail) = word(rest);
            (Token::Field(name.to_owned()), tail)
        }
        _ => (Token::Dot, rest),
    }
}

fn is_word_start(c: char) -> bool {
    c.is_ascii_alphabetic() || c == '_'
}

fn word(text: &str) -> (&str, &str) {
    let end = text.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(text.len());
    text.split_at(end)
}

fn number(text: &str) -> Result<(Token, &str), JqError> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (digits, tail) = text.split_at(end);
    let number = digits.parse().map_err(|_| JqError::new(format!("{digits:?} is no number")))?;
    Ok((Token::Number(number), tail))
}

fn string(text: &str) -> Result<(String, &str), JqError> {
    let mut out = String::new();
    let mut chars = text.char_indices();
    while let Some((index, c)) = chars.next() {
        match c {
            '"' => return Ok((out, &text[index + 1..])),
            '\\' => match chars.next().map(|(_, escaped)| escaped) {
                Some('n') => out.push('\n'),
                Some('t') => out.push('\t'),
                Some('r') => out.push('\r'),
                Some(plain @ ('"' | '\\' | '/')) => out.push(plain),
                _ => return Err(JqError::new("this escape in a string is not supported")),
            },
            plain => out.push(plain),
        }
    }
    Err(JqError::new("a string has no end"))
}
