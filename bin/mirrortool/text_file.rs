//! Files of text that are named on the command line, and images that are named there by mistake: those have zeros at their
//! start, and are not read to their end to find out.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

/// How much is looked at first.
const START_BYTES: u64 = 4096;

/// The start of a file; `None` where it is no text.
pub(crate) fn start(file: &mut File) -> io::Result<Option<Vec<u8>>> {
    let mut bytes = Vec::new();
    file.take(START_BYTES).read_to_end(&mut bytes)?;
    Ok((!bytes.contains(&0)).then_some(bytes))
}

/// All bytes of a file that is text at its start; a pipe will do.
pub(crate) fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut file = File::open(path)?;
    let no_text = || io::Error::new(io::ErrorKind::InvalidData, "it is no text");
    let mut bytes = start(&mut file)?.ok_or_else(no_text)?;
    file.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The same as a string.
pub(crate) fn read_to_string(path: &Path) -> io::Result<String> {
    String::from_utf8(read(path)?).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}

#[cfg(test)]
mod tests {
    use super::read_to_string;
    use std::fs::{self, File};

    #[test]
    fn text_is_read_whole_and_an_image_only_at_its_start() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("report.json");
        let text = "{ }\n".repeat(3000);
        fs::write(&path, &text).expect("written");
        assert_eq!(read_to_string(&path).expect("read"), text);
        let image = folder.path().join("d1.img");
        // Nobody has so much memory.
        File::create(&image).and_then(|file| file.set_len(1 << 40)).expect("made");
        assert_eq!(read_to_string(&image).expect_err("no text").to_string(), "it is no text");
    }
}
