//! The two loops that must be fast, written once for any width of register: Q with P in one pass over the columns, and
//! a column times a constant. Which registers the processor has is asked at run time.
//!
//! The only unsafe code of this layer. The wrappers hold its two conditions: the processor has the instructions, and no
//! load or store leaves its slice.
#![allow(unsafe_code, reason = "loads, stores and instructions of vector registers")]
#![allow(clippy::inline_always, reason = "vector instructions must end up in the function that enables them")]

use super::field::{MulTable, double};
#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::{
    __m128i, __m256i, _mm_add_epi8, _mm_and_si128, _mm_cmpgt_epi8, _mm_loadu_si128, _mm_set1_epi8, _mm_setzero_si128,
    _mm_shuffle_epi8, _mm_srli_epi64, _mm_storeu_si128, _mm_xor_si128, _mm256_add_epi8, _mm256_and_si256,
    _mm256_broadcastsi128_si256, _mm256_cmpgt_epi8, _mm256_loadu_si256, _mm256_set1_epi8, _mm256_setzero_si256,
    _mm256_shuffle_epi8, _mm256_srli_epi64, _mm256_storeu_si256, _mm256_xor_si256,
};

/// Sets of vector instructions, from the widest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum InstructionSet {
    #[cfg(target_arch = "x86_64")]
    Avx2,
    #[cfg(target_arch = "x86_64")]
    Ssse3,
    /// Eight bytes in an integer.
    Portable,
}

/// Sets `p` and `q`, which are as long as each column, to the parity of the columns.
pub(super) fn pq_parity(p: &mut [u8], q: &mut [u8], data: &[Option<&[u8]>]) {
    InstructionSet::best().pq_parity(p, q, data);
}

/// Adds the product of `src` and the factor of the table to `dst`, as far as both reach.
pub(super) fn mul_into(dst: &mut [u8], src: &[u8], table: &MulTable) {
    InstructionSet::best().mul_into(dst, src, table);
}

impl InstructionSet {
    /// Those that this processor has, the best first.
    pub(super) fn available() -> impl Iterator<Item = Self> {
        #[cfg(target_arch = "x86_64")]
        let wide = [
            is_x86_feature_detected!("avx2").then_some(Self::Avx2),
            is_x86_feature_detected!("ssse3").then_some(Self::Ssse3),
        ];
        #[cfg(not(target_arch = "x86_64"))]
        let wide = [];
        wide.into_iter().flatten().chain([Self::Portable])
    }

    fn best() -> Self {
        Self::available().next().unwrap_or(Self::Portable)
    }

    pub(super) fn pq_parity(self, p: &mut [u8], q: &mut [u8], data: &[Option<&[u8]>]) {
        let len = data.iter().flatten().map(|column| column.len()).fold(p.len().min(q.len()), usize::min);
        let row = PqRow { p: p.as_mut_ptr(), q: q.as_mut_ptr(), data, len };
        // SAFETY: no slice of the row is shorter than `len`, and `available` saw the instructions.
        unsafe {
            match self {
                #[cfg(target_arch = "x86_64")]
                Self::Avx2 => pq_avx2(&row),
                #[cfg(target_arch = "x86_64")]
                Self::Ssse3 => pq_ssse3(&row),
                Self::Portable => pq::<u64>(&row),
            }
        }
    }

    pub(super) fn mul_into(self, dst: &mut [u8], src: &[u8], table: &MulTable) {
        let len = dst.len().min(src.len());
        let operands = MulOperands { dst: dst.as_mut_ptr(), src: src.as_ptr(), len };
        // SAFETY: neither slice is shorter than `len`, and `available` saw the instructions.
        unsafe {
            match self {
                #[cfg(target_arch = "x86_64")]
                Self::Avx2 => mul_avx2(&operands, table),
                #[cfg(target_arch = "x86_64")]
                Self::Ssse3 => mul_ssse3(&operands, table),
                Self::Portable => mul::<u64>(&operands, table),
            }
        }
    }
}

/// One row: each pointer and each column is good for `len` bytes.
struct PqRow<'a> {
    p: *mut u8,
    q: *mut u8,
    data: &'a [Option<&'a [u8]>],
    len: usize,
}

/// Two columns, each good for `len` bytes.
struct MulOperands {
    dst: *mut u8,
    src: *const u8,
    len: usize,
}

/// Bytes side by side in one register. To call any of it, the processor must have the register's instructions; `load`
/// and `store` need `BYTES` bytes at the pointer, at any alignment.
trait Lanes: Copy {
    const BYTES: usize;
    unsafe fn zero() -> Self;
    unsafe fn load(from: *const u8) -> Self;
    unsafe fn store(self, to: *mut u8);
    unsafe fn xor(self, other: Self) -> Self;
    /// Each byte times 2.
    unsafe fn double(self) -> Self;
    /// Each byte times the factor of the table.
    unsafe fn mul(self, table: &MulTable) -> Self;
}

/// Runs over whole registers, then over the bytes that are left.
#[inline(always)]
unsafe fn pq<V: Lanes>(row: &PqRow<'_>) {
    // SAFETY: the caller's conditions are those of both calls; the second starts where the first ended.
    unsafe {
        let done = pq_from::<V>(row, 0);
        pq_from::<u8>(row, done);
    }
}

/// Horner's rule from the last column to the first: Q becomes 2 Q + D at each. Returns where less than a register is
/// left.
#[inline(always)]
unsafe fn pq_from<V: Lanes>(row: &PqRow<'_>, from: usize) -> usize {
    let mut at = from;
    while row.len - at >= V::BYTES {
        // SAFETY: `at + V::BYTES` is at most `len`, for which all pointers of the row are good.
        unsafe {
            let (mut p, mut q) = (V::zero(), V::zero());
            for column in row.data.iter().rev() {
                q = q.double();
                if let Some(column) = column {
                    let d = V::load(column.as_ptr().add(at));
                    p = p.xor(d);
                    q = q.xor(d);
                }
            }
            p.store(row.p.add(at));
            q.store(row.q.add(at));
        }
        at += V::BYTES;
    }
    at
}

#[inline(always)]
unsafe fn mul<V: Lanes>(operands: &MulOperands, table: &MulTable) {
    // SAFETY: the caller's conditions are those of both calls; the second starts where the first ended.
    unsafe {
        let done = mul_from::<V>(operands, table, 0);
        mul_from::<u8>(operands, table, done);
    }
}

#[inline(always)]
unsafe fn mul_from<V: Lanes>(operands: &MulOperands, table: &MulTable, from: usize) -> usize {
    let mut at = from;
    while operands.len - at >= V::BYTES {
        // SAFETY: `at + V::BYTES` is at most `len`, for which both pointers are good.
        unsafe {
            let product = V::load(operands.src.add(at)).mul(table);
            let dst = operands.dst.add(at);
            V::load(dst).xor(product).store(dst);
        }
        at += V::BYTES;
    }
    at
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
unsafe fn pq_avx2(row: &PqRow<'_>) {
    // SAFETY: the caller's conditions.
    unsafe { pq::<__m256i>(row) }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "ssse3")]
unsafe fn pq_ssse3(row: &PqRow<'_>) {
    // SAFETY: the caller's conditions.
    unsafe { pq::<__m128i>(row) }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
unsafe fn mul_avx2(operands: &MulOperands, table: &MulTable) {
    // SAFETY: the caller's conditions.
    unsafe { mul::<__m256i>(operands, table) }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "ssse3")]
unsafe fn mul_ssse3(operands: &MulOperands, table: &MulTable) {
    // SAFETY: the caller's conditions.
    unsafe { mul::<__m128i>(operands, table) }
}

impl Lanes for u8 {
    const BYTES: usize = 1;
    unsafe fn zero() -> Self {
        0
    }
    unsafe fn load(from: *const u8) -> Self {
        // SAFETY: the trait's condition.
        unsafe { *from }
    }
    unsafe fn store(self, to: *mut u8) {
        // SAFETY: the trait's condition.
        unsafe { *to = self }
    }
    unsafe fn xor(self, other: Self) -> Self {
        self ^ other
    }
    unsafe fn double(self) -> Self {
        double(self)
    }
    unsafe fn mul(self, table: &MulTable) -> Self {
        table.product(self)
    }
}

impl Lanes for u64 {
    const BYTES: usize = 8;
    unsafe fn zero() -> Self {
        0
    }
    unsafe fn load(from: *const u8) -> Self {
        // SAFETY: the trait's condition.
        Self::from_le_bytes(unsafe { from.cast::<[u8; 8]>().read_unaligned() })
    }
    unsafe fn store(self, to: *mut u8) {
        // SAFETY: the trait's condition.
        unsafe { to.cast::<[u8; 8]>().write_unaligned(self.to_le_bytes()) }
    }
    unsafe fn xor(self, other: Self) -> Self {
        self ^ other
    }
    unsafe fn double(self) -> Self {
        const LOW_SEVEN: u64 = u64::from_le_bytes([0x7f; 8]);
        let carries = (self & !LOW_SEVEN) >> 7;
        ((self & LOW_SEVEN) << 1) ^ (carries * 0x1d)
    }
    unsafe fn mul(self, table: &MulTable) -> Self {
        Self::from_le_bytes(self.to_le_bytes().map(|byte| table.product(byte)))
    }
}

// SAFETY of both: the instructions are there by the trait's condition, and so are the bytes that load and store touch.
#[cfg(target_arch = "x86_64")]
#[allow(clippy::undocumented_unsafe_blocks, reason = "one condition for all, above")]
impl Lanes for __m256i {
    const BYTES: usize = 32;
    #[inline(always)]
    unsafe fn zero() -> Self {
        unsafe { _mm256_setzero_si256() }
    }
    #[inline(always)]
    unsafe fn load(from: *const u8) -> Self {
        unsafe { _mm256_loadu_si256(from.cast()) }
    }
    #[inline(always)]
    unsafe fn store(self, to: *mut u8) {
        unsafe { _mm256_storeu_si256(to.cast(), self) }
    }
    #[inline(always)]
    unsafe fn xor(self, other: Self) -> Self {
        unsafe { _mm256_xor_si256(self, other) }
    }
    #[inline(always)]
    unsafe fn double(self) -> Self {
        unsafe {
            let carries = _mm256_cmpgt_epi8(_mm256_setzero_si256(), self);
            let reduce = _mm256_and_si256(carries, _mm256_set1_epi8(0x1d));
            _mm256_xor_si256(_mm256_add_epi8(self, self), reduce)
        }
    }
    #[inline(always)]
    unsafe fn mul(self, table: &MulTable) -> Self {
        unsafe {
            let low_half = _mm256_set1_epi8(0x0f);
            let low_table = _mm256_broadcastsi128_si256(_mm_loadu_si128(table.low.as_ptr().cast()));
            let high_table = _mm256_broadcastsi128_si256(_mm_loadu_si128(table.high.as_ptr().cast()));
            let low = _mm256_shuffle_epi8(low_table, _mm256_and_si256(self, low_half));
            let high = _mm256_shuffle_epi8(high_table, _mm256_and_si256(_mm256_srli_epi64::<4>(self), low_half));
            _mm256_xor_si256(low, high)
        }
    }
}

#[cfg(target_arch = "x86_64")]
#[allow(clippy::undocumented_unsafe_blocks, reason = "one condition for all, above")]
impl Lanes for __m128i {
    const BYTES: usize = 16;
    #[inline(always)]
    unsafe fn zero() -> Self {
        unsafe { _mm_setzero_si128() }
    }
    #[inline(always)]
    unsafe fn load(from: *const u8) -> Self {
        unsafe { _mm_loadu_si128(from.cast()) }
    }
    #[inline(always)]
    unsafe fn store(self, to: *mut u8) {
        unsafe { _mm_storeu_si128(to.cast(), self) }
    }
    #[inline(always)]
    unsafe fn xor(self, other: Self) -> Self {
        unsafe { _mm_xor_si128(self, other) }
    }
    #[inline(always)]
    unsafe fn double(self) -> Self {
        unsafe {
            let carries = _mm_cmpgt_epi8(_mm_setzero_si128(), self);
            let reduce = _mm_and_si128(carries, _mm_set1_epi8(0x1d));
            _mm_xor_si128(_mm_add_epi8(self, self), reduce)
        }
    }
    #[inline(always)]
    unsafe fn mul(self, table: &MulTable) -> Self {
        unsafe {
            let low_half = _mm_set1_epi8(0x0f);
            let low = _mm_shuffle_epi8(_mm_loadu_si128(table.low.as_ptr().cast()), _mm_and_si128(self, low_half));
            let high = _mm_and_si128(_mm_srli_epi64::<4>(self), low_half);
            _mm_xor_si128(low, _mm_shuffle_epi8(_mm_loadu_si128(table.high.as_ptr().cast()), high))
        }
    }
}
