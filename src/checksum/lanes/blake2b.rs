//! `BLAKE2b` of eight messages at once, one in each lane of a 512-bit register (algorithm and constants: RFC 7693).
//!
//! Eight states of sixteen words are as many registers as AVX-512 has halves of: sixteen hold the states, sixteen the
//! words of the eight blocks, so that a round touches no memory. Only whole blocks: a message of another length is left
//! to the caller. Never decides which implementation is used.
#![allow(unsafe_code, reason = "loads of vector registers and the call of a function that needs their instructions")]

use std::arch::x86_64::{
    __m512i, _mm512_add_epi64, _mm512_loadu_si512, _mm512_ror_epi64, _mm512_set1_epi64, _mm512_setzero_si512,
    _mm512_shuffle_i64x2, _mm512_storeu_si512, _mm512_unpackhi_epi64, _mm512_unpacklo_epi64, _mm512_xor_si512,
};

/// Messages that are hashed at once.
pub(super) const LANES: usize = 8;
/// Bytes that one compression takes from each message.
const BLOCK_BYTES: usize = 128;
/// Length of the digests.
pub(super) const DIGEST_BYTES: usize = 32;

const IV: [u64; 8] = [
    0x6a09_e667_f3bc_c908,
    0xbb67_ae85_84ca_a73b,
    0x3c6e_f372_fe94_f82b,
    0xa54f_f53a_5f1d_36f1,
    0x510e_527f_ade6_82d1,
    0x9b05_688c_2b3e_6c1f,
    0x1f83_d9ab_fb41_bd6b,
    0x5be0_cd19_137e_2179,
];
/// Word 0 of the parameter block: digest of 32 bytes, no key, one leaf.
const PARAMETERS: u64 = 0x0101_0000 | DIGEST_BYTES as u64;

/// Whether this processor has the instructions.
pub(super) fn is_available() -> bool {
    is_x86_feature_detected!("avx512f")
}

/// The digests of eight messages of `message_bytes` bytes that lie one after the other in `messages`; `None` where a
/// message is empty or does not end with a block, where the eight are not all there, or without the instructions.
pub(super) fn digest8(messages: &[u8], message_bytes: usize) -> Option<[[u8; DIGEST_BYTES]; LANES]> {
    let whole = message_bytes > 0 && message_bytes.is_multiple_of(BLOCK_BYTES);
    if !whole || message_bytes.checked_mul(LANES) != Some(messages.len()) || !is_available() {
        return None;
    }
    // SAFETY: the processor has the instructions.
    Some(unsafe { digest8_avx512(messages, message_bytes) })
}

#[target_feature(enable = "avx512f")]
fn digest8_avx512(messages: &[u8], message_bytes: usize) -> [[u8; DIGEST_BYTES]; LANES] {
    let mut state = splat_all(IV);
    if let Some(first) = state.first_mut() {
        *first = xor(*first, splat(PARAMETERS));
    }
    for end in (BLOCK_BYTES..=message_bytes).step_by(BLOCK_BYTES) {
        let words = block_words(messages, message_bytes, end - BLOCK_BYTES);
        state = compress(&state, &words, end as u64, end == message_bytes);
    }
    digests(&state)
}

#[target_feature(enable = "avx512f")]
fn splat(word: u64) -> __m512i {
    _mm512_set1_epi64(word.cast_signed())
}

#[target_feature(enable = "avx512f")]
fn splat_all(words: [u64; 8]) -> [__m512i; 8] {
    let mut all = [_mm512_setzero_si512(); 8];
    for (to, from) in all.iter_mut().zip(words) {
        *to = splat(from);
    }
    all
}

#[target_feature(enable = "avx512f")]
fn xor(a: __m512i, b: __m512i) -> __m512i {
    _mm512_xor_si512(a, b)
}

/// The sixteen words of the blocks that begin at `from` of each message: word `w` of message `l` is lane `l` of entry
/// `w`.
#[target_feature(enable = "avx512f")]
fn block_words(messages: &[u8], message_bytes: usize, from: usize) -> [__m512i; 16] {
    let mut words = [_mm512_setzero_si512(); 16];
    let (mut low, mut high) = ([_mm512_setzero_si512(); LANES], [_mm512_setzero_si512(); LANES]);
    for (lane, (low, high)) in low.iter_mut().zip(&mut high).enumerate() {
        let block = messages.get(lane * message_bytes + from..).unwrap_or(&[]);
        (*low, *high) = (load(block), load(block.get(64..).unwrap_or(&[])));
    }
    let halves = [transpose(&low), transpose(&high)];
    for (to, from) in words.iter_mut().zip(halves.as_flattened()) {
        *to = *from;
    }
    words
}

/// The first 64 bytes of `bytes`; zeros where there are fewer.
#[target_feature(enable = "avx512f")]
fn load(bytes: &[u8]) -> __m512i {
    match bytes.first_chunk::<64>() {
        // SAFETY: 64 bytes can be read there, at any alignment.
        Some(bytes) => unsafe { _mm512_loadu_si512(bytes.as_ptr().cast()) },
        None => _mm512_setzero_si512(),
    }
}

/// Row `r`, column `c` becomes row `c`, column `r`.
#[target_feature(enable = "avx512f")]
fn transpose(rows: &[__m512i; 8]) -> [__m512i; 8] {
    let [r0, r1, r2, r3, r4, r5, r6, r7] = *rows;
    // Pairs of words, then pairs of 128 bits, then halves.
    let (a0, a1) = (_mm512_unpacklo_epi64(r0, r1), _mm512_unpackhi_epi64(r0, r1));
    let (a2, a3) = (_mm512_unpacklo_epi64(r2, r3), _mm512_unpackhi_epi64(r2, r3));
    let (a4, a5) = (_mm512_unpacklo_epi64(r4, r5), _mm512_unpackhi_epi64(r4, r5));
    let (a6, a7) = (_mm512_unpacklo_epi64(r6, r7), _mm512_unpackhi_epi64(r6, r7));
    let (b0, b2) = (_mm512_shuffle_i64x2::<0x88>(a0, a2), _mm512_shuffle_i64x2::<0xdd>(a0, a2));
    let (b1, b3) = (_mm512_shuffle_i64x2::<0x88>(a1, a3), _mm512_shuffle_i64x2::<0xdd>(a1, a3));
    let (b4, b6) = (_mm512_shuffle_i64x2::<0x88>(a4, a6), _mm512_shuffle_i64x2::<0xdd>(a4, a6));
    let (b5, b7) = (_mm512_shuffle_i64x2::<0x88>(a5, a7), _mm512_shuffle_i64x2::<0xdd>(a5, a7));
    [
        _mm512_shuffle_i64x2::<0x88>(b0, b4),
        _mm512_shuffle_i64x2::<0x88>(b1, b5),
        _mm512_shuffle_i64x2::<0x88>(b2, b6),
        _mm512_shuffle_i64x2::<0x88>(b3, b7),
        _mm512_shuffle_i64x2::<0xdd>(b0, b4),
        _mm512_shuffle_i64x2::<0xdd>(b1, b5),
        _mm512_shuffle_i64x2::<0xdd>(b2, b6),
        _mm512_shuffle_i64x2::<0xdd>(b3, b7),
    ]
}

/// One mixing of a column or a diagonal.
macro_rules! mix {
    ($v:ident, $m:ident, $a:literal $b:literal $c:literal $d:literal, $x:literal $y:literal) => {
        $v[$a] = _mm512_add_epi64(_mm512_add_epi64($v[$a], $v[$b]), $m[$x]);
        $v[$d] = _mm512_ror_epi64::<32>(xor($v[$d], $v[$a]));
        $v[$c] = _mm512_add_epi64($v[$c], $v[$d]);
        $v[$b] = _mm512_ror_epi64::<24>(xor($v[$b], $v[$c]));
        $v[$a] = _mm512_add_epi64(_mm512_add_epi64($v[$a], $v[$b]), $m[$y]);
        $v[$d] = _mm512_ror_epi64::<16>(xor($v[$d], $v[$a]));
        $v[$c] = _mm512_add_epi64($v[$c], $v[$d]);
        $v[$b] = _mm512_ror_epi64::<63>(xor($v[$b], $v[$c]));
    };
}

/// One round: the columns, then the diagonals, with the words of the block in this order.
macro_rules! round {
    ($v:ident, $m:ident: $s0:literal $s1:literal $s2:literal $s3:literal $s4:literal $s5:literal $s6:literal $s7:literal
     $s8:literal $s9:literal $s10:literal $s11:literal $s12:literal $s13:literal $s14:literal $s15:literal) => {
        mix!($v, $m, 0 4 8 12, $s0 $s1);
        mix!($v, $m, 1 5 9 13, $s2 $s3);
        mix!($v, $m, 2 6 10 14, $s4 $s5);
        mix!($v, $m, 3 7 11 15, $s6 $s7);
        mix!($v, $m, 0 5 10 15, $s8 $s9);
        mix!($v, $m, 1 6 11 12, $s10 $s11);
        mix!($v, $m, 2 7 8 13, $s12 $s13);
        mix!($v, $m, 3 4 9 14, $s14 $s15);
    };
}

/// Takes one block of each message in; `bytes` have been taken in with it, and `is_last` says that no more follow.
#[target_feature(enable = "avx512f")]
fn compress(h: &[__m512i; 8], m: &[__m512i; 16], bytes: u64, is_last: bool) -> [__m512i; 8] {
    let [h0, h1, h2, h3, h4, h5, h6, h7] = *h;
    let [i0, i1, i2, i3, i4, i5, i6, i7] = IV;
    let last = if is_last { u64::MAX } else { 0 };
    let low = [h0, h1, h2, h3, h4, h5, h6, h7];
    let high = splat_all([i0, i1, i2, i3, i4 ^ bytes, i5, i6 ^ last, i7]);
    let mut v = [_mm512_setzero_si512(); 16];
    for (to, from) in v.iter_mut().zip([low, high].as_flattened()) {
        *to = *from;
    }
    round!(v, m: 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15);
    round!(v, m: 14 10 4 8 9 15 13 6 1 12 0 2 11 7 5 3);
    round!(v, m: 11 8 12 0 5 2 15 13 10 14 3 6 7 1 9 4);
    round!(v, m: 7 9 3 1 13 12 11 14 2 6 5 10 4 0 15 8);
    round!(v, m: 9 0 5 7 2 4 10 15 14 1 11 12 6 8 3 13);
    round!(v, m: 2 12 6 10 0 11 8 3 4 13 7 5 15 14 1 9);
    round!(v, m: 12 5 1 15 14 13 4 10 0 7 6 3 9 2 8 11);
    round!(v, m: 13 11 7 14 12 1 3 9 5 0 15 4 8 6 2 10);
    round!(v, m: 6 15 14 9 11 3 0 8 12 2 13 7 1 4 10 5);
    round!(v, m: 10 2 8 4 7 6 1 5 15 11 9 14 3 12 13 0);
    round!(v, m: 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15);
    round!(v, m: 14 10 4 8 9 15 13 6 1 12 0 2 11 7 5 3);
    let mut mixed = low;
    let (below, above) = v.split_at(8);
    for (h, (a, b)) in mixed.iter_mut().zip(below.iter().zip(above)) {
        *h = xor(*h, xor(*a, *b));
    }
    mixed
}

/// The first four words of each lane, little-endian.
#[target_feature(enable = "avx512f")]
fn digests(state: &[__m512i; 8]) -> [[u8; DIGEST_BYTES]; LANES] {
    let lanes = transpose(state);
    let mut digests = [[0; DIGEST_BYTES]; LANES];
    for (digest, lane) in digests.iter_mut().zip(lanes) {
        let mut words = [0_u8; 64];
        // SAFETY: 64 bytes can be written there, at any alignment.
        unsafe { _mm512_storeu_si512(words.as_mut_ptr().cast(), lane) };
        for (to, from) in digest.iter_mut().zip(words) {
            *to = from;
        }
    }
    digests
}
