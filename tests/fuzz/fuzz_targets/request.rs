//! libFuzzer's way into `lapse_fuzz::request`. Owns nothing: what must hold is there.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| lapse_fuzz::request::check(data));
