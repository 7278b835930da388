//! From logical addresses to places on devices: profiles, geometry, parity, sets of members.

mod profile;

pub use profile::Profile;
