//! A device that is put together from files below it, for those above: its bytes, and where they are stored.

use super::node::{Node, Parts};
use crate::device::{Below, LowerFile, ParityRows, Part, ReadDevice, ReadOnlyReason};
use crate::units::Physical;
use std::io;
use std::sync::Arc;

/// All that the devices of a set have in common.
#[derive(Default)]
pub(super) struct Shared {
    pub(super) files: Vec<LowerFile>,
    pub(super) parities: Vec<Arc<dyn ParityRows>>,
}

/// What is known of a device beside its bytes.
#[derive(Clone, Debug, Default)]
pub(super) struct About {
    /// From the outermost to the innermost layer.
    pub(super) chain: String,
    pub(super) has_copies: bool,
    pub(super) is_degraded: bool,
    pub(super) read_only: Option<ReadOnlyReason>,
    pub(super) notes: Vec<String>,
}

impl About {
    /// Puts `layer` on top.
    pub(super) fn on_top(mut self, layer: &str) -> Self {
        self.chain = if self.chain.is_empty() { layer.to_owned() } else { format!("{} > {layer}", self.chain) };
        self
    }

    /// Of several that stand side by side.
    pub(super) fn together(all: impl IntoIterator<Item = Self>) -> Self {
        let mut sum = Self::default();
        for about in all {
            if !about.chain.is_empty() && !sum.chain.split(" + ").any(|chain| chain == about.chain) {
                let glue = if sum.chain.is_empty() { "" } else { " + " };
                sum.chain = format!("{}{glue}{}", sum.chain, about.chain);
            }
            sum.has_copies |= about.has_copies;
            sum.is_degraded |= about.is_degraded;
            sum.read_only = sum.read_only.or(about.read_only);
            sum.notes.extend(about.notes);
        }
        sum
    }
}

pub(super) struct Layered {
    pub(super) node: Arc<dyn Node>,
    pub(super) about: About,
    pub(super) shared: Arc<Shared>,
}

impl ReadDevice for Layered {
    fn len(&self) -> u64 {
        self.node.len()
    }

    fn alignment(&self) -> usize {
        4096
    }

    fn read_at(&self, at: Physical, buf: &mut [u8]) -> io::Result<()> {
        if at.raw().checked_add(buf.len() as u64).is_none_or(|end| end > self.node.len()) {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.node.read(at.raw(), buf)
    }

    fn below(&self) -> Option<&dyn Below> {
        Some(self)
    }
}

impl Below for Layered {
    fn files(&self) -> &[LowerFile] {
        &self.shared.files
    }

    fn parts(&self, at: Physical, len_bytes: u64) -> Vec<Part> {
        let len_bytes = len_bytes.min(self.node.len().saturating_sub(at.raw()));
        let mut parts = Parts::default();
        self.node.cut(at.raw(), len_bytes, &mut parts);
        parts.into_vec()
    }

    fn rebuilt(&self, at: Physical, len_bytes: usize) -> Vec<Vec<u8>> {
        if at.raw().checked_add(len_bytes as u64).is_none_or(|end| end > self.node.len()) {
            return Vec::new();
        }
        self.node.rebuilt(at.raw(), len_bytes)
    }

    fn parities(&self) -> &[Arc<dyn ParityRows>] {
        &self.shared.parities
    }

    fn has_copies(&self) -> bool {
        self.about.has_copies
    }

    fn is_degraded(&self) -> bool {
        self.about.is_degraded
    }

    fn read_only(&self) -> Option<&ReadOnlyReason> {
        self.about.read_only.as_ref()
    }

    fn chain(&self) -> String {
        self.about.chain.clone()
    }

    fn notes(&self) -> &[String] {
        &self.about.notes
    }
}
