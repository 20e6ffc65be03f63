//! Bytes read as a head of `name: value` lines, an empty line, and a body: inputs that a person can write.
//!
//! Owns: the form of an input with headers. Must not: judge a name or a value; any bytes are a head and a body.

/// A name and its value, without the one space that may stand before it.
pub(crate) type Line<'a> = (&'a [u8], &'a [u8]);

/// The lines before the first empty one, and all bytes after it.
pub(crate) fn split(data: &[u8]) -> (Vec<Line<'_>>, &[u8]) {
    let (head, body) = match data.windows(2).position(|pair| pair == b"\n\n") {
        Some(end) => (&data[..end], &data[end + 2..]),
        None => (data, &data[data.len()..]),
    };
    (head.split(|byte| *byte == b'\n').filter_map(line).collect(), body)
}

fn line(line: &[u8]) -> Option<Line<'_>> {
    let colon = line.iter().position(|byte| *byte == b':')?;
    let value = &line[colon + 1..];
    Some((&line[..colon], value.strip_prefix(b" ").unwrap_or(value)))
}
