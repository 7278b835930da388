//! The owners of a finding: lines below it in the text, keys of it in a document.

use crate::owners::{FileUse, Owners, Subvolume, printable};
use serde::Serialize;
use std::io::{self, Write};

/// One line per owner of a run of blocks, indented, `most` files at most. Given are the owners of its first and of its
/// last block, which has `last_bytes`.
pub(super) fn write_lines(
    (owners, last): (&Owners, &Owners),
    last_bytes: u64,
    most: usize,
    out: &mut dyn Write,
) -> io::Result<()> {
    if let Some(holds) = &owners.holds {
        writeln!(out, "    {holds}")?;
    }
    for (file, last) in owners.files.iter().zip(&last.files).take(most) {
        let place = match (file.offset, last.offset) {
            // What a tree block holds of a file is not at any offset of it.
            _ if owners.holds.is_some() => String::new(),
            (first, last) if first == last => format!(", offset {first}"),
            (first, last) => format!(", offsets [{first}, {})", last.saturating_add(last_bytes)),
        };
        writeln!(out, "    {}{place}", full_path(file))?;
    }
    let unlisted = (owners.files.len().saturating_sub(most) as u64).saturating_add(owners.omitted);
    if unlisted > 0 {
        writeln!(out, "    and {}", super::human::count(unlisted, "more owner"))?;
    }
    if owners.is_cut {
        writeln!(out, "    there are more owners than were followed")?;
    }
    if owners.is_partial {
        writeln!(out, "    there may be more owners: damaged trees are in the way")?;
    }
    Ok(())
}

/// The path of a subvolume from the top of the file system.
pub fn subvolume_name(subvolume: &Subvolume) -> String {
    match &subvolume.path {
        Some(path) => format!("/{}", printable(path)),
        None => format!("<subvolume {}>", subvolume.id),
    }
}

/// The path from the top of the file system.
pub(super) fn full_path(file: &FileUse) -> String {
    let subvolume = match &file.subvolume.path {
        Some(path) if path.is_empty() => String::new(),
        _ => subvolume_name(&file.subvolume),
    };
    match &file.path {
        Some(path) => format!("{subvolume}/{}", printable(path)),
        None => format!("{subvolume}/<inode {} without a name>", file.inode),
    }
}

#[derive(Serialize)]
pub(super) struct FileEntry {
    subvolume: Option<String>,
    path: Option<String>,
    offset: u64,
    subvolume_id: u64,
    inode: u64,
}

impl FileEntry {
    pub(super) fn new(file: &FileUse) -> Self {
        Self {
            subvolume: file.subvolume.path.as_deref().map(text),
            path: file.path.as_deref().map(text),
            offset: file.offset,
            subvolume_id: file.subvolume.id.raw(),
            inode: file.inode.raw(),
        }
    }
}

/// A name in a document: what is not UTF-8 is replaced.
pub(super) fn text(name: &[u8]) -> String {
    String::from_utf8_lossy(name).into_owned()
}
