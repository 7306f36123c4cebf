//! Durations on the command line, as Go writes them.

use kai_api::duration::{Units, parse_duration};
use kai_core::time::Span;

/// A duration such as `1m30s` that is not negative.
pub(crate) fn span(text: &str) -> Result<Span, String> {
    let nanos = parse_duration(text, Units::Go).map_err(|error| error.to_string())?;
    if nanos < 0 { Err("must not be negative".to_owned()) } else { Ok(Span { nanos }) }
}
