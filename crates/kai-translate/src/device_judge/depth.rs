//! How deep expressions may nest. The library reads and evaluates them by calling itself once or more per level, so that
//! an expression deeper than the stack would end the process: `1 + 1 + 1 …` is one level per term.

use std::io;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::thread;

use cel::Env;
use cel::common::ast::IdedExpr;

use super::cost::parts;

/// Levels of an expression, about as many as the API server reads. Evaluation needs up to 64 KiB of stack per level.
const MOST_LEVELS: usize = 250;
/// Brackets, prefix operators and conditionals inside each other, which the library reads level by level.
const MOST_BRACKETS: usize = 128;
/// Stack that reads any expression of the longest length within these bounds. Only what is used of it takes memory.
const STACK_BYTES: usize = 256 << 20;

/// Reads an expression that does not nest too deeply.
pub(super) fn read(env: &Arc<Env>, expression: &str) -> Result<IdedExpr, String> {
    if brackets(expression) > MOST_BRACKETS {
        return Err(too_deep());
    }
    // What is too deep is also dropped on that stack.
    let compile = || {
        let program = env.compile(expression).map_err(|errors| errors.to_string())?;
        let read = program.expression();
        if has_levels(read, MOST_LEVELS) { Err(too_deep()) } else { Ok(read.clone()) }
    };
    on_deep_stack(compile).unwrap_or_else(|error| Err(format!("it cannot be read: {error}")))
}

/// Does something on a stack that holds every expression that is read or evaluated; an error where there is no thread for
/// it. A panic goes on here.
pub(super) fn on_deep_stack<T: Send>(work: impl FnOnce() -> T + Send) -> io::Result<T> {
    thread::scope(|scope| {
        let thread = thread::Builder::new().stack_size(STACK_BYTES).spawn_scoped(scope, work)?;
        Ok(thread.join().unwrap_or_else(|panic| resume_unwind(panic)))
    })
}

fn too_deep() -> String {
    format!("it nests deeper than {MOST_LEVELS} levels")
}

/// Brackets inside each other at most, with prefix operators in a row and conditionals. Texts in quotes count too: no
/// selector needs so many.
fn brackets(expression: &str) -> usize {
    let (mut open, mut deepest, mut prefixes, mut conditionals) = (0_usize, 0, 0, 0);
    for character in expression.chars() {
        match character {
            '(' | '[' | '{' => open += 1,
            ')' | ']' | '}' => open = open.saturating_sub(1),
            '?' => conditionals += 1,
            _ => {}
        }
        match character {
            '!' | '-' => prefixes += 1,
            ' ' | '\t' | '\n' | '\r' | '(' => {}
            _ => prefixes = 0,
        }
        deepest = deepest.max(open + prefixes + conditionals);
    }
    deepest
}

/// Does the expression have more levels than `most`?
fn has_levels(expression: &IdedExpr, most: usize) -> bool {
    let Some(most) = most.checked_sub(1) else { return true };
    parts(expression).into_iter().any(|part| has_levels(part, most))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device_judge::library;

    #[test]
    fn expressions_that_nest_too_deeply_are_rejected_and_do_not_overflow_the_stack() {
        let env = Arc::new(library::environment());
        let repeated = |text: &str, count: usize| text.repeat(count);
        let attacks = [
            format!("{}1 == 2", repeated("1+", 5000)),
            format!("{}1 == 2", repeated("1*", 5000)),
            format!("device{}", repeated(".a", 5000)),
            format!("device{}", repeated("[0]", 3400)),
            format!("{}1{}", repeated("(", 5000), repeated(")", 5000)),
            format!("{}true", repeated("!", 10_000)),
            format!("{}1", repeated("-", 10_000)),
            format!("{}1{}", repeated("[", 5000), repeated("]", 5000)),
            format!("{}1", repeated("1<2?1:", 1700)),
            format!("{}1{}", repeated("[1].map(x, ", 700), repeated(")", 700)),
            repeated("(", 10_000),
        ];
        for attack in attacks {
            let error = read(&env, &attack).expect_err("an error");
            assert!(error.contains("nests deeper"), "{attack:.20}: {error:.200}");
        }
        let many = vec!["device.driver == 'gpu'"; 200].join(" && ");
        assert!(read(&env, &many).is_ok(), "{:.200}", read(&env, &many).unwrap_err());
    }
}
