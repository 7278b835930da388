//! Which copy md RAID10 reads (`read_balance()` in `drivers/md/raid10.c`).
//!
//! With near copies an idle device is taken at once, else the one whose head is nearest. With far and offset copies the
//! lowest address wins, for that is what makes sequential reads stripe.

use super::raid10::{Copy, Layout};

/// What md remembers of its members.
#[derive(Clone, Debug)]
pub struct ReadBalance {
    layout: Layout,
    heads: Vec<Head>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Head {
    position: u64,
    pending: u32,
}

impl ReadBalance {
    /// For an array of `devices` members, heads at the start.
    pub fn new(layout: Layout, devices: u32) -> Self {
        Self { layout, heads: vec![Head::default(); devices as usize] }
    }

    /// The index of the copy to read; counts it as pending. `copies` are in the order of the geometry; of none, 0.
    pub fn choose(&mut self, copies: &[Copy]) -> usize {
        let head = |copy: &Copy| self.heads.get(copy.device as usize).copied().unwrap_or_default();
        let near = matches!(self.layout, Layout::Near(_));
        let idle = copies.iter().position(|copy| near && head(copy).pending == 0);
        let distance = |copy: &Copy| if near { copy.at.raw().abs_diff(head(copy).position) } else { copy.at.raw() };
        let chosen = idle.or_else(|| (0..copies.len()).min_by_key(|&index| distance(&copies[index]))).unwrap_or(0);
        if let Some(head) = copies.get(chosen).and_then(|copy| self.heads.get_mut(copy.device as usize)) {
            head.pending += 1;
        }
        chosen
    }

    /// The read of `len_bytes` from `copy` has ended.
    pub fn complete(&mut self, copy: Copy, len_bytes: u64) {
        if let Some(head) = self.heads.get_mut(copy.device as usize) {
            head.pending = head.pending.saturating_sub(1);
            head.position = (copy.at + len_bytes).raw();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::Physical;

    fn copies(at: [u64; 2]) -> [Copy; 2] {
        [Copy { device: 0, at: Physical::new(at[0]) }, Copy { device: 1, at: Physical::new(at[1]) }]
    }

    #[test]
    fn near_copies_go_to_the_idle_device_then_to_the_nearest_head() {
        let mut balance = ReadBalance::new(Layout::Near(2), 2);
        let here = copies([1 << 20, 1 << 20]);
        assert_eq!(balance.choose(&here), 0);
        assert_eq!(balance.choose(&here), 1);
        balance.complete(here[1], 4096);
        assert_eq!(balance.choose(&here), 1);
        // Both are busy; the head of the second one is near.
        assert_eq!(balance.choose(&here), 1);
    }

    #[test]
    fn far_copies_are_read_from_the_lower_address() {
        let mut balance = ReadBalance::new(Layout::Far(2), 2);
        for _ in 0..3 {
            assert_eq!(balance.choose(&copies([1 << 30, 4096])), 1);
        }
    }
}
