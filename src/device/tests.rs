//! What all engines have in common, on real files; no test needs root.

use super::{Consent, DeviceError, HeldDevice, IoEngine, ReadDevice, WriteDevice, cache_drop, identity, open_read};
use crate::units::Physical;
use proptest::prelude::*;
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::{Arc, LazyLock};
use tempfile::{NamedTempFile, TempDir};

/// No multiple of any alignment, and longer than a bounce buffer.
const FILE_BYTES: usize = 700_001;

fn pattern(bytes: usize) -> Vec<u8> {
    (0..bytes as u64).map(|i| (i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8).collect()
}

fn file_of(contents: &[u8]) -> NamedTempFile {
    let file = NamedTempFile::new().unwrap();
    fs::write(file.path(), contents).unwrap();
    file
}

/// The file with every engine that this file system has (an old tmpfs has no direct I/O).
fn engines(path: &Path) -> Vec<(IoEngine, Arc<dyn ReadDevice>)> {
    let open = |engine| match open_read(path, engine) {
        Err(DeviceError::EngineRefused { engine: IoEngine::Direct | IoEngine::Mmap, .. }) => None,
        device => Some((engine, device.unwrap())),
    };
    IoEngine::ALL.into_iter().filter_map(open).collect()
}

fn read(device: &dyn ReadDevice, at: u64, bytes: usize) -> io::Result<Vec<u8>> {
    let mut buf = vec![0; bytes];
    device.read_at(Physical::new(at), &mut buf).map(|()| buf)
}

struct Shared {
    contents: Vec<u8>,
    devices: Vec<(IoEngine, Arc<dyn ReadDevice>)>,
    _file: NamedTempFile,
}

static SHARED: LazyLock<Shared> = LazyLock::new(|| {
    let contents = pattern(FILE_BYTES);
    let file = file_of(&contents);
    cache_drop(file.path()).unwrap();
    Shared { devices: engines(file.path()), contents, _file: file }
});

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn all_engines_read_the_same_bytes_at_any_offset_and_length(
        at in prop_oneof![0..FILE_BYTES, (0..170_usize).prop_map(|block| block * 4096)],
        bytes in prop_oneof![0..FILE_BYTES, 0..5000_usize, (0..100_usize).prop_map(|blocks| blocks * 512)],
        skew in 0..3_usize,
    ) {
        let bytes = bytes.min(FILE_BYTES - at);
        for (engine, device) in &SHARED.devices {
            let mut buf = vec![0xaa; bytes + skew];
            device.read_at(Physical::new(at as u64), &mut buf[skew..]).unwrap();
            prop_assert!(buf[skew..] == SHARED.contents[at..at + bytes], "{}", engine);
        }
    }
}

#[test]
fn the_whole_file_and_its_last_byte_are_readable() {
    for (engine, device) in &SHARED.devices {
        assert_eq!(device.len(), FILE_BYTES as u64, "{engine}");
        assert!(read(&**device, 0, FILE_BYTES).unwrap() == SHARED.contents, "{engine}");
        assert_eq!(read(&**device, FILE_BYTES as u64 - 1, 1).unwrap(), SHARED.contents[FILE_BYTES - 1..], "{engine}");
    }
}

#[test]
fn a_read_that_reaches_past_the_end_is_an_error_and_never_padded() {
    for (engine, device) in &SHARED.devices {
        let kind = |at, bytes| read(&**device, at, bytes).unwrap_err().kind();
        for (at, bytes) in
            [(FILE_BYTES as u64 - 1, 2), (FILE_BYTES as u64 + 4096, 4096), (u64::MAX, 1), (0, FILE_BYTES + 1)]
        {
            assert_eq!(kind(at, bytes), io::ErrorKind::UnexpectedEof, "{engine} at {at}");
        }
    }
}

#[test]
fn a_file_smaller_than_a_block_is_read() {
    let file = file_of(b"tiny");
    for (engine, device) in engines(file.path()) {
        assert_eq!(read(&*device, 1, 3).unwrap(), b"iny", "{engine}");
    }
}

#[test]
fn a_file_that_shrinks_under_a_reader_is_an_error_for_every_engine() {
    let file = file_of(&pattern(1 << 20));
    let devices = engines(file.path());
    file.as_file().set_len(100_100).unwrap();
    for (engine, device) in devices {
        assert_eq!(read(&*device, 0, 65536).unwrap(), pattern(65536), "{engine}");
        for (at, bytes) in [(512 << 10, 4096), (0, 1 << 20), (98_304, 4096), (100_099, 2)] {
            let error = read(&*device, at, bytes).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof, "{engine} at {at}");
        }
    }
}

#[test]
fn auto_reads_the_same_bytes_cold_and_cached() {
    let contents = pattern(3 << 20);
    let file = file_of(&contents);
    cache_drop(file.path()).unwrap();
    let cold = open_read(file.path(), IoEngine::Auto).unwrap();
    assert!(read(&*cold, 0, contents.len()).unwrap() == contents);
    fs::read(file.path()).unwrap();
    let cached = open_read(file.path(), IoEngine::Auto).unwrap();
    assert!(read(&*cached, 0, contents.len()).unwrap() == contents);
}

#[test]
fn what_is_no_member_is_refused_with_its_path_and_what_it_is() {
    let dir = TempDir::new().unwrap();
    let path = |name: &str| dir.path().join(name);
    fs::write(path("empty"), b"").unwrap();
    rustix::fs::mknodat(rustix::fs::CWD, path("fifo"), rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
    std::os::unix::net::UnixListener::bind(path("socket")).unwrap();
    let cases = [
        (dir.path().to_path_buf(), "is a directory"),
        (path("fifo"), "is a fifo"),
        (path("socket"), "is a socket"),
        ("/dev/null".into(), "is a character device"),
        (path("missing"), "no such file or device"),
        (path("empty"), "is empty (0 bytes)"),
    ];
    for (path, what) in cases {
        for engine in IoEngine::ALL {
            let text = open_read(&path, engine).err().unwrap().to_string();
            assert!(text.starts_with(&format!("{}: {what}", path.display())), "{text}");
        }
        let text = HeldDevice::open(&path).err().unwrap().to_string();
        assert!(text.starts_with(&format!("{}: {what}", path.display())), "{text}");
    }
}

#[test]
fn a_file_without_permission_is_refused_as_such() {
    let file = file_of(b"secret");
    fs::set_permissions(file.path(), fs::Permissions::from_mode(0o000)).unwrap();
    // Root may read it all the same.
    if fs::File::open(file.path()).is_err() {
        let error = open_read(file.path(), IoEngine::Auto).err().unwrap();
        assert!(matches!(error, DeviceError::PermissionDenied { .. }), "{error}");
    }
}

#[test]
fn two_names_of_one_file_have_one_identity() {
    let dir = TempDir::new().unwrap();
    let path = |name: &str| dir.path().join(name);
    fs::write(path("a"), b"x").unwrap();
    fs::write(path("b"), b"x").unwrap();
    fs::hard_link(path("a"), path("hard")).unwrap();
    std::os::unix::fs::symlink(path("a"), path("soft")).unwrap();
    let a = identity(&path("a")).unwrap();
    assert_eq!(identity(&path("hard")).unwrap(), a);
    assert_eq!(identity(&path("soft")).unwrap(), a);
    assert_ne!(identity(&path("b")).unwrap(), a);
    assert!(matches!(identity(&path("missing")), Err(DeviceError::NotFound { .. })));
}

#[test]
fn engine_names_round_trip_and_others_are_named_in_the_error() {
    for engine in IoEngine::ALL {
        assert_eq!(engine.to_string().parse(), Ok(engine));
    }
    let error = "uring".parse::<IoEngine>().unwrap_err();
    assert_eq!(error.to_string(), "unknown I/O engine \"uring\", expected auto, direct, buffered or mmap");
}

fn writable(path: &Path) -> Arc<dyn WriteDevice> {
    HeldDevice::open(path).unwrap().writer(&Consent::given_by_user())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]
    #[test]
    fn writes_change_their_range_and_nothing_else(
        writes in prop::collection::vec((0..FILE_BYTES, 1..20_000_usize, any::<u8>()), 1..6),
        long in (0..FILE_BYTES - 300_000, any::<u8>()),
    ) {
        let mut expected = pattern(FILE_BYTES);
        let file = file_of(&expected);
        let device = writable(file.path());
        for (at, bytes, value) in writes.into_iter().chain([(long.0, 300_000, long.1)]) {
            let data = vec![value; bytes.min(FILE_BYTES - at)];
            expected[at..at + data.len()].copy_from_slice(&data);
            device.write_at(Physical::new(at as u64), &data).unwrap();
        }
        prop_assert!(read(&*device, 0, FILE_BYTES).unwrap() == expected);
        device.sync().unwrap();
        prop_assert!(read(&*device, 0, FILE_BYTES).unwrap() == expected);
        prop_assert!(fs::read(file.path()).unwrap() == expected);
    }
}

#[test]
fn a_member_never_grows() {
    let file = file_of(&pattern(10_000));
    let device = writable(file.path());
    for at in [9_999, 10_000, u64::MAX] {
        assert_eq!(device.write_at(Physical::new(at), &[1, 2]).unwrap_err().kind(), io::ErrorKind::InvalidInput);
    }
    device.sync().unwrap();
    assert_eq!(fs::read(file.path()).unwrap(), pattern(10_000));
}

#[test]
fn a_second_writer_is_kept_out_and_readers_are_not() {
    let file = file_of(&pattern(8192));
    let first = writable(file.path());
    let second = HeldDevice::open(file.path()).err().unwrap();
    assert!(matches!(second, DeviceError::Busy { .. }), "{second}");
    assert!(open_read(file.path(), IoEngine::Auto).is_ok());
    drop(first);
    writable(file.path());
}

#[test]
fn a_synced_write_is_not_left_in_the_page_cache() {
    let file = file_of(&pattern(FILE_BYTES));
    let cached = || super::cache::cached_bytes(file.as_file(), 0, FILE_BYTES as u64);
    cache_drop(file.path()).unwrap();
    // Where the kernel does not tell, or the file lives in the page cache (tmpfs), there is nothing to see.
    let visible = matches!(cached(), Ok(0));
    let device = writable(file.path());
    device.write_at(Physical::new(4096), &[7; 8192]).unwrap();
    device.write_at(Physical::new(FILE_BYTES as u64 - 1), &[7]).unwrap();
    device.sync().unwrap();
    assert!(!visible || matches!(cached(), Ok(0)), "{:?}", cached());
    assert_eq!(read(&*device, FILE_BYTES as u64 - 1, 1).unwrap(), [7]);
}
