//! A doc comment says what the name of its item does not. Comments of up to three words with a pronoun in the place of the
//! noun, such as "Its name.", say less than the name: they stay out of the sources.

mod source_files;

use std::fs;

use source_files::{rust_files, workspace_root};

const PRONOUNS: [&str; 10] =
    ["it", "its", "it's", "they", "their", "them", "these", "those", "what", "who"];
const FEW_WORDS: usize = 3;

/// The doc comments of one line, with their line numbers.
fn one_line_comments(text: &str) -> Vec<(usize, &str)> {
    let lines: Vec<Option<&str>> =
        text.lines().map(|line| line.trim().strip_prefix("/// ")).collect();
    let is_comment =
        |at: Option<usize>| at.is_some_and(|at| lines.get(at).is_some_and(Option::is_some));
    let alone = |at: usize| !is_comment(at.checked_sub(1)) && !is_comment(Some(at + 1));
    let comments = lines.iter().enumerate().filter_map(|(at, line)| line.map(|line| (at, line)));
    comments.filter(|(at, _)| alone(*at)).map(|(at, line)| (at + 1, line)).collect()
}

fn says_nothing(comment: &str) -> bool {
    let words: Vec<String> = comment
        .split_whitespace()
        .map(|word| word.trim_matches(['.', ',', '?']).to_lowercase())
        .collect();
    words.len() <= FEW_WORDS && words.iter().any(|word| PRONOUNS.contains(&&**word))
}

#[test]
fn short_doc_comments_use_the_noun() {
    let root = workspace_root();
    let mut files = Vec::new();
    rust_files(&root.join("crates"), &mut files);
    rust_files(&root.join("xtask"), &mut files);
    files.sort();
    assert!(!files.is_empty(), "no source files below {}", root.display());
    let mut wrong = Vec::new();
    for path in files {
        let text = fs::read_to_string(&path).expect("a source file");
        let comments = one_line_comments(&text).into_iter();
        let place = path.strip_prefix(&root).unwrap_or(&path).display();
        wrong.extend(
            comments
                .filter(|(_, comment)| says_nothing(comment))
                .map(|(line, comment)| format!("{place}:{line}: {comment}")),
        );
    }
    assert!(wrong.is_empty(), "write the noun, or no comment:\n{}", wrong.join("\n"));
}

#[test]
fn comments_without_a_noun_are_found() {
    for comment in ["Its name.", "What it has.", "Who places it.", "They do."] {
        assert!(says_nothing(comment), "{comment}");
    }
    for comment in ["MiB per device.", "Its UUID as the driver prints it."] {
        assert!(!says_nothing(comment), "{comment}");
    }
    let text = "/// Its name.\nx\n/// Its name, of which\n/// more follows.\ny";
    assert_eq!(one_line_comments(text), [(1, "Its name.")]);
}
