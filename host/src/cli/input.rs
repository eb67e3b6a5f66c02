//! Payloads and files from outside: an argument, a file, stdin.
//!
//! Invariants: never more than the limit and one byte is held; what is accepted is byte for byte
//! what was there.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{BufRead, BufReader, Read, stdin};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

use super::error::CliError;
use crate::queue::{QueueError, SymbolsRefused};

/// What is being done, for errors.
const PAYLOAD: &str = "read the payload";
const BATCH: &str = "read the batch";

/// Where a payload comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// The argument itself.
    Text(Vec<u8>),
    /// A file.
    File(PathBuf),
    /// Stdin.
    Stdin,
}

impl Source {
    /// Reads an argument: `@FILE`, `-`, or the text itself; nothing means no bytes.
    #[must_use]
    pub fn from_argument(argument: Option<&OsStr>) -> Self {
        match argument.map(OsStr::as_bytes) {
            None => Self::Text(Vec::new()),
            Some(b"-") => Self::Stdin,
            Some([b'@', path @ ..]) => Self::File(OsString::from_vec(path.to_vec()).into()),
            Some(text) => Self::Text(text.to_vec()),
        }
    }

    /// A file, or stdin for `-`.
    #[must_use]
    pub fn from_path(path: &Path) -> Self {
        if path.as_os_str() == "-" { Self::Stdin } else { Self::File(path.to_owned()) }
    }

    /// How errors call it.
    fn name(&self) -> String {
        match self {
            Self::Text(_) => "the argument".to_owned(),
            Self::File(path) => path.display().to_string(),
            Self::Stdin => "stdin".to_owned(),
        }
    }

    fn open(&self, doing: &'static str) -> Result<Box<dyn Read + '_>, CliError> {
        match self {
            Self::Text(text) => Ok(Box::new(text.as_slice())),
            Self::File(path) => Ok(Box::new(open_file(doing, path)?)),
            Self::Stdin => Ok(Box::new(stdin().lock())),
        }
    }

    /// The size where it is known in advance.
    fn known_size(&self) -> Option<u64> {
        match self {
            Self::Text(text) => Some(text.len() as u64),
            Self::File(path) => path.metadata().ok().filter(std::fs::Metadata::is_file).map(|meta| meta.len()),
            Self::Stdin => None,
        }
    }
}

#[allow(clippy::disallowed_methods)] // What a user names on the command line is not part of the store.
fn open_file(doing: &'static str, path: &Path) -> Result<File, CliError> {
    if path.as_os_str().is_empty() {
        let nothing = std::io::Error::new(std::io::ErrorKind::InvalidInput, "there is no name of a file");
        return Err(CliError::from_file(doing, Path::new("@"))(nothing));
    }
    let file = File::open(path).map_err(CliError::from_file(doing, path))?;
    if path.is_dir() {
        return Err(CliError::from_file(doing, path)(std::io::ErrorKind::IsADirectory.into()));
    }
    Ok(file)
}

/// Reads a payload of at most `limit` bytes.
///
/// # Errors
/// When it cannot be read, or is larger.
pub fn read_payload(source: &Source, limit: u64) -> Result<Vec<u8>, CliError> {
    let name = source.name();
    let mut bytes = Vec::new();
    let path = PathBuf::from(&name);
    let mut bounded = source.open(PAYLOAD)?.take(limit + 1);
    bounded.read_to_end(&mut bytes).map_err(CliError::from_file(PAYLOAD, &path))?;
    if bytes.len() as u64 > limit {
        let found = source.known_size().filter(|size| *size > limit);
        return Err(CliError::PayloadTooLarge { name, found, limit });
    }
    Ok(bytes)
}

/// Reads a `.wasm` file of at most `limit` bytes.
///
/// # Errors
/// When it cannot be read, or is larger.
pub fn read_component(path: &Path, limit: u64) -> Result<Vec<u8>, CliError> {
    read_file("read the component", path, limit)?.ok_or_else(|| {
        let found = path.metadata().map(|meta| meta.len()).unwrap_or(limit + 1);
        CliError::ComponentTooLarge { path: path.to_owned(), found, limit }
    })
}

/// Reads a file of symbols of at most `limit` bytes.
///
/// # Errors
/// When it cannot be read, or is larger.
pub fn read_symbols(path: &Path, limit: u64) -> Result<Vec<u8>, CliError> {
    let refused = || QueueError::SymbolsRefused(SymbolsRefused::TooLarge { limit_bytes: limit }).into();
    read_file("read the symbols", path, limit)?.ok_or_else(refused)
}

/// Reads a file; nothing when it has more than `limit` bytes.
fn read_file(doing: &'static str, path: &Path, limit: u64) -> Result<Option<Vec<u8>>, CliError> {
    let mut bytes = Vec::new();
    let read = open_file(doing, path)?.take(limit + 1).read_to_end(&mut bytes);
    read.map_err(CliError::from_file(doing, path))?;
    Ok(Some(bytes).filter(|bytes| bytes.len() as u64 <= limit))
}

/// The lines of a batch, without their line breaks of either kind, each at most `limit` bytes.
pub struct Lines<'a> {
    reader: BufReader<Box<dyn Read + 'a>>,
    name: String,
    limit: u64,
    /// The number of the line that was read last, from 1.
    pub number: u64,
}

impl<'a> Lines<'a> {
    /// Begins to read.
    ///
    /// # Errors
    /// When the file cannot be opened.
    pub fn open(source: &'a Source, limit: u64) -> Result<Self, CliError> {
        Ok(Self { reader: BufReader::new(source.open(BATCH)?), name: source.name(), limit, number: 0 })
    }

    /// The next line.
    ///
    /// # Errors
    /// When it cannot be read, or is longer than the limit.
    pub fn next_line(&mut self) -> Result<Option<Vec<u8>>, CliError> {
        let mut line = Vec::new();
        let path = PathBuf::from(&self.name);
        let mut bounded = self.reader.by_ref().take(self.limit + 2);
        let read = bounded.read_until(b'\n', &mut line).map_err(CliError::from_file(BATCH, &path))?;
        if read == 0 {
            return Ok(None);
        }
        self.number += 1;
        if line.last() == Some(&b'\n') {
            line.pop();
            line.pop_if(|last| *last == b'\r');
        }
        if line.len() as u64 > self.limit {
            let name = format!("line {} of {}", self.number, self.name);
            return Err(CliError::PayloadTooLarge { name, found: None, limit: self.limit });
        }
        Ok(Some(line))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;

    fn file(bytes: &[u8]) -> (tempfile::NamedTempFile, Source) {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(bytes).unwrap();
        let source = Source::File(file.path().to_owned());
        (file, source)
    }

    #[test]
    fn symbols_over_the_limit_are_not_called_a_component() {
        let (file, _) = file(b"12345");
        assert_eq!(read_symbols(file.path(), 5).unwrap(), b"12345");
        let error = read_symbols(file.path(), 4).unwrap_err().describe();
        assert!(error.message.contains("more than 4 bytes, which is the limit for symbols"), "{}", error.message);
    }

    #[test]
    fn an_argument_is_text_a_file_or_stdin() {
        let of = |text: &str| Source::from_argument(Some(OsStr::new(text)));
        assert_eq!(of("@a b"), Source::File("a b".into()));
        assert_eq!(of("-"), Source::Stdin);
        assert_eq!(of("-5"), Source::Text(b"-5".to_vec()));
        assert_eq!(of(""), Source::Text(Vec::new()));
        assert_eq!(Source::from_argument(Some(OsStr::from_bytes(b"\xff\xfe\0"))), Source::Text(b"\xff\xfe\0".to_vec()));
    }

    #[test]
    fn a_payload_at_the_limit_is_read_and_one_byte_more_is_refused_with_both_numbers() {
        let (_file, source) = file(&[7; 101]);
        assert_eq!(read_payload(&source, 101).unwrap(), [7; 101]);
        let error = read_payload(&source, 100).unwrap_err();
        assert!(matches!(error, CliError::PayloadTooLarge { found: Some(101), limit: 100, .. }));
        assert_eq!(read_payload(&Source::Text(Vec::new()), 0).unwrap(), b"");
    }

    #[test]
    fn a_batch_has_a_payload_a_line_byte_for_byte() {
        let (_file, source) = file(b"a\r\n\n\xff\0\n\r\r\nb\rc\nlast\r");
        let mut lines = Lines::open(&source, 5).unwrap();
        let mut all = Vec::new();
        while let Some(line) = lines.next_line().unwrap() {
            all.push(line);
        }
        assert_eq!(all, [&b"a"[..], b"", b"\xff\0", b"\r", b"b\rc", b"last\r"], "line breaks are not in it");
    }

    #[test]
    fn a_line_at_the_limit_is_read_and_a_longer_one_is_refused_by_its_number() {
        for longer in ["12345\n", "12345\r\n", "1234\r", "1234\rx"] {
            let (_file, source) = file(format!("1234\n1234\r\n{longer}").as_bytes());
            let mut lines = Lines::open(&source, 4).unwrap();
            assert_eq!(lines.next_line().unwrap().unwrap(), b"1234");
            assert_eq!(lines.next_line().unwrap().unwrap(), b"1234");
            let error = lines.next_line().unwrap_err().to_string();
            assert!(error.starts_with("line 3 of "), "{error}");
        }
    }

    #[test]
    fn a_directory_or_a_missing_file_is_named() {
        let told = |source: &Source| {
            let described = read_payload(source, 1).unwrap_err().describe();
            (described.message, described.hint.unwrap())
        };
        for (source, message, hint) in [
            (Source::File("/".into()), "failed to read the payload /: is a directory", "name a file in it"),
            (Source::File("no/file".into()), "failed to read the payload no/file: No such file", "relative to"),
            (Source::from_argument(Some(OsStr::new("@"))), "failed to read the payload @: there is no name", "@FILE"),
        ] {
            let (text, next) = told(&source);
            assert!(text.starts_with(message) && next.contains(hint) && !text.contains('\n'), "{text} {next}");
        }
        assert!(read_component(Path::new("/no/such/file"), 1).is_err());
    }
}
