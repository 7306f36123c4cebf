//! Tokens to an expression.

use serde_json::Value;

use super::JqError;
use super::functions::Function;
use super::lexer::Token;

/// Deeper expressions are an error.
const DEEPEST: usize = 64;

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Expr {
    Identity,
    Literal(Value),
    Step { base: Box<Expr>, step: Step },
    Try(Box<Expr>),
    Pipe(Box<Expr>, Box<Expr>),
    Comma(Box<Expr>, Box<Expr>),
    Binary(Op, Box<Expr>, Box<Expr>),
    Negate(Box<Expr>),
    Call(Function, Vec<Expr>),
    If { test: Box<Expr>, then: Box<Expr>, otherwise: Box<Expr> },
    Array(Option<Box<Expr>>),
    Object(Vec<(String, Expr)>),
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Step {
    Key(Box<Expr>),
    Each,
    Slice(Option<Box<Expr>>, Option<Box<Expr>>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Op {
    Alternative,
    Or,
    And,
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
}

/// Operators by how tightly they bind, loosest first.
const LEVELS: [&[(&str, Op)]; 6] = [
    &[("//", Op::Alternative)],
    &[("or", Op::Or)],
    &[("and", Op::And)],
    &[
        ("==", Op::Equal),
        ("!=", Op::NotEqual),
        ("<=", Op::LessOrEqual),
        (">=", Op::GreaterOrEqual),
        ("<", Op::Less),
        (">", Op::Greater),
    ],
    &[("+", Op::Add), ("-", Op::Subtract)],
    &[("*", Op::Multiply), ("/", Op::Divide), ("%", Op::Remainder)],
];

pub(super) fn parse(tokens: Vec<Token>) -> Result<Expr, JqError> {
    let mut parser = Parser { tokens, at: 0, depth: 0 };
    let expr = parser.pipe()?;
    match parser.peek() {
        None => Ok(expr),
        Some(token) => Err(unexpected(token)),
    }
}

fn unexpected(token: &Token) -> JqError {
    let shown = match token {
        Token::Mark(mark @ (".." | "=" | "|=" | "+=" | "-=" | "*=" | "/=" | "%=" | "//=")) => {
            return JqError::new(format!("'{mark}' is not allowed"));
        }
        Token::Mark(mark) => (*mark).to_owned(),
        Token::Word(word) => word.clone(),
        Token::Field(name) => format!(".{name}"),
        Token::Dot => ".".to_owned(),
        Token::Number(number) => number.to_string(),
        Token::Text(text) => format!("{text:?}"),
    };
    JqError::new(format!("unexpected '{shown}'"))
}

struct Parser {
    tokens: Vec<Token>,
    at: usize,
    depth: usize,
}

impl Parser {
    fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.at)
    }

    fn is(&self, symbol: &str) -> bool {
        match self.peek() {
            Some(Token::Mark(mark)) => *mark == symbol,
            Some(Token::Word(word)) => word == symbol,
            _ => false,
        }
    }

    fn take(&mut self, symbol: &str) -> bool {
        let found = self.is(symbol);
        self.at += usize::from(found);
        found
    }

    fn expect(&mut self, symbol: &str) -> Result<(), JqError> {
        if self.take(symbol) { Ok(()) } else { Err(JqError::new(format!("'{symbol}' is missing"))) }
    }

    fn pipe(&mut self) -> Result<Expr, JqError> {
        self.depth += 1;
        if self.depth > DEEPEST {
            return Err(JqError::new("it is nested too deeply"));
        }
        let mut left = self.comma()?;
        while self.take("|") {
            left = Expr::Pipe(Box::new(left), Box::new(self.comma()?));
        }
        self.depth -= 1;
        Ok(left)
    }

    fn comma(&mut self) -> Result<Expr, JqError> {
        let mut left = self.binary(0)?;
        while self.take(",") {
            left = Expr::Comma(Box::new(left), Box::new(self.binary(0)?));
        }
        Ok(left)
    }

    fn binary(&mut self, level: usize) -> Result<Expr, JqError> {
        let Some(operators) = LEVELS.get(level) else { return self.unary() };
        let mut left = self.binary(level + 1)?;
        while let Some((symbol, op)) = operators.iter().find(|(symbol, _)| self.is(symbol)) {
            self.expect(symbol)?;
            // The alternative is the one that binds to the right.
            let right = if level == 0 { self.binary(level)? } else { self.binary(level + 1)? };
            left = Expr::Binary(*op, Box::new(left), Box::new(right));
        }
        Ok(left)
    }

    fn unary(&mut self) -> Result<Expr, JqError> {
        if self.take("-") {
            return Ok(Expr::Negate(Box::new(self.postfix()?)));
        }
        self.postfix()
    }

    fn postfix(&mut self) -> Result<Expr, JqError> {
        let mut expr = self.primary()?;
        loop {
            if self.take("?") {
                expr = Expr::Try(Box::new(expr));
            } else if self.is("[") {
                let step = self.brackets()?;
                expr = Expr::Step { base: Box::new(expr), step };
            } else if let Some(Token::Field(name)) = self.peek().cloned() {
                self.at += 1;
                expr = key(expr, name);
            } else if self.peek() == Some(&Token::Dot) {
                self.at += 1;
                expr = self.after_dot(expr)?;
            } else {
                return Ok(expr);
            }
        }
    }

    /// What follows a dot that is no plain field: `."key"` or `.[…]`.
    fn after_dot(&mut self, base: Expr) -> Result<Expr, JqError> {
        if let Some(Token::Text(name)) = self.peek().cloned() {
            self.at += 1;
            return Ok(key(base, name));
        }
        if self.is("[") {
            let step = self.brackets()?;
            return Ok(Expr::Step { base: Box::new(base), step });
        }
        Err(JqError::new("a name is missing after '.'"))
    }

    fn brackets(&mut self) -> Result<Step, JqError> {
        self.expect("[")?;
        if self.take("]") {
            return Ok(Step::Each);
        }
        let start = if self.is(":") { None } else { Some(Box::new(self.pipe()?)) };
        if self.take(":") {
            let end = if self.is("]") { None } else { Some(Box::new(self.pipe()?)) };
            self.expect("]")?;
            return Ok(Step::Slice(start, end));
        }
        self.expect("]")?;
        start.map(Step::Key).ok_or_else(|| JqError::new("an index is missing"))
    }

    fn primary(&mut self) -> Result<Expr, JqError> {
        let Some(token) = self.peek().cloned() else {
            return Err(JqError::new("it ends too early"));
        };
        self.at += 1;
        match token {
            Token::Dot => match self.peek() {
                Some(Token::Text(_)) => self.after_dot(Expr::Identity),
                _ if self.is("[") => self.after_dot(Expr::Identity),
                _ => Ok(Expr::Identity),
            },
            Token::Field(name) => Ok(key(Expr::Identity, name)),
            Token::Number(number) => Ok(Expr::Literal(super::eval::number(number))),
            Token::Text(text) => Ok(Expr::Literal(Value::String(text))),
            Token::Word(word) => self.word(&word),
            Token::Mark("(") => {
                let inner = self.pipe()?;
                self.expect(")")?;
                Ok(inner)
            }
            Token::Mark("[") => {
                if self.take("]") {
                    return Ok(Expr::Array(None));
                }
                let inner = self.pipe()?;
                self.expect("]")?;
                Ok(Expr::Array(Some(Box::new(inner))))
            }
            Token::Mark("{") => self.object(),
            token @ Token::Mark(_) => Err(unexpected(&token)),
        }
    }

    fn object(&mut self) -> Result<Expr, JqError> {
        let mut fields = Vec::new();
        while !self.take("}") {
            let Some(Token::Word(name) | Token::Text(name)) = self.peek().cloned() else {
                return Err(JqError::new("a key is missing in an object"));
            };
            self.at += 1;
            let value =
                if self.take(":") { self.binary(0)? } else { key(Expr::Identity, name.clone()) };
            fields.push((name, value));
            if !self.take(",") && !self.is("}") {
                return Err(JqError::new("'}' is missing"));
            }
        }
        Ok(Expr::Object(fields))
    }

    fn word(&mut self, word: &str) -> Result<Expr, JqError> {
        match word {
            "null" => return Ok(Expr::Literal(Value::Null)),
            "true" => return Ok(Expr::Literal(Value::Bool(true))),
            "false" => return Ok(Expr::Literal(Value::Bool(false))),
            "if" => return self.condition(),
            "del" => return Err(JqError::new("del function is not allowed")),
            "range" | "paths" | "recurse" | "walk" | "repeat" => {
                let problem =
                    format!("function '{word}' may produce excessive output and is not allowed");
                return Err(JqError::new(problem));
            }
            _ => {}
        }
        let mut arguments = Vec::new();
        if self.take("(") {
            arguments.push(self.pipe()?);
            while self.take(";") {
                arguments.push(self.pipe()?);
            }
            self.expect(")")?;
        }
        let function = Function::find(word, arguments.len()).ok_or_else(|| {
            JqError::new(format!("function '{word}/{}' is not supported", arguments.len()))
        })?;
        Ok(Expr::Call(function, arguments))
    }

    fn condition(&mut self) -> Result<Expr, JqError> {
        let test = Box::new(self.pipe()?);
        self.expect("then")?;
        let then = Box::new(self.pipe()?);
        let otherwise = if self.take("elif") {
            return Ok(Expr::If { test, then, otherwise: Box::new(self.condition()?) });
        } else if self.take("else") {
            self.pipe()?
        } else {
            Expr::Identity
        };
        self.expect("end")?;
        Ok(Expr::If { test, then, otherwise: Box::new(otherwise) })
    }
}

fn key(base: Expr, name: String) -> Expr {
    let step = Step::Key(Box::new(Expr::Literal(Value::String(name))));
    Expr::Step { base: Box::new(base), step }
}
