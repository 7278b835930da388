//! State per device, found by devid without a lock: the members are known when the set is opened.

use crate::units::DeviceId;

/// One `T` per member, sorted by devid.
pub(super) struct DeviceTable<T> {
    rows: Vec<(DeviceId, T)>,
}

impl<T: Default> DeviceTable<T> {
    /// A row for each of `devids`; duplicates share one.
    pub(super) fn new(devids: &[DeviceId]) -> Self {
        let mut sorted = devids.to_vec();
        sorted.sort_unstable();
        sorted.dedup();
        Self { rows: sorted.into_iter().map(|devid| (devid, T::default())).collect() }
    }
}

impl<T> DeviceTable<T> {
    /// The row of `devid`; `None` for a device that is no member.
    pub(super) fn of(&self, devid: DeviceId) -> Option<&T> {
        let at = self.rows.binary_search_by_key(&devid, |row| row.0).ok()?;
        self.rows.get(at).map(|row| &row.1)
    }
}
