//! SEC-1 and SEC-2: which URLs and addresses may be called.
//!
//! Owns: the judgement of a URL's form and of an address. Must not: resolve names; an adapter asks for every
//! address where the connection is made. Source: IANA special-purpose address registries (RFC 6890 and updates).
//!
//! Stricter than the registries: blocks that they call globally reachable (anycast of AS112, AMT, PCP and TURN,
//! version 2 of ORCHID) serve protocols of their own and hold no webhook's receiver. Multicast and former site-local
//! addresses are of other registries and blocked as well.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;
use url::{Host, Url};

/// Ranges that may be called although they are not public.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AllowList(Vec<IpNet>);

/// A text that is no list of address ranges.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no address range such as 10.9.0.0/16")]
pub struct InvalidRange(String);

impl AllowList {
    /// Reads ranges separated by commas; an empty text is an empty list.
    pub fn parse(text: &str) -> Result<Self, InvalidRange> {
        let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
        let range = |part: &str| part.parse().map_err(|_| InvalidRange(part.to_owned()));
        parts.map(range).collect::<Result<_, _>>().map(Self)
    }

    fn has(&self, address: IpAddr) -> bool {
        self.0.iter().any(|range| range.contains(&address))
    }
}

/// Why a URL or an address may not be called.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// It is no absolute URL.
    #[error("the URL does not parse")]
    NotAUrl,
    /// Its scheme is neither https nor, where allowed, http.
    #[error("the URL's scheme is not https")]
    Scheme,
    /// It carries a user name or a password.
    #[error("the URL carries credentials")]
    Credentials,
    /// The address is not public and on no allow-list.
    #[error("the address {0} is not public")]
    Address(IpAddr),
}

/// Whether plain http will do (SEC-1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scheme {
    /// https only.
    Https,
    /// http too: the destination says `allow_http`.
    HttpToo,
}

/// Judges a URL by its form, an address literal in it as well (SEC-1, SEC-2, CLS-9).
pub fn judge_url(text: &str, scheme: Scheme, allowed: &AllowList) -> Result<Url, Refusal> {
    let url = Url::parse(text).map_err(|_| Refusal::NotAUrl)?;
    match (url.scheme(), scheme) {
        ("https", _) | ("http", Scheme::HttpToo) => {}
        _ => return Err(Refusal::Scheme),
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(Refusal::Credentials);
    }
    match url.host() {
        None => return Err(Refusal::NotAUrl),
        Some(Host::Domain(_)) => {}
        Some(Host::Ipv4(address)) => judge_address(address.into(), allowed)?,
        Some(Host::Ipv6(address)) => judge_address(address.into(), allowed)?,
    }
    Ok(url)
}

/// Judges one address (SEC-2).
pub fn judge_address(address: IpAddr, allowed: &AllowList) -> Result<(), Refusal> {
    if allowed.has(address) || is_public(address) { Ok(()) } else { Err(Refusal::Address(address)) }
}

fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => is_public_v4(v4),
        IpAddr::V6(v6) => is_public_v6(v6),
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    let special = match (a, b, c) {
        // This network; private; loopback; multicast and reserved with the limited broadcast.
        (0 | 10 | 127 | 224..=255, _, _)
        // Shared address space (CGNAT, RFC 6598).
        | (100, 64..=127, _)
        // Link-local, with the metadata services.
        | (169, 254, _)
        | (172, 16..=31, _)
        // IETF protocol assignments; TEST-NET-1; AS112; AMT; deprecated 6to4 relays; private.
        | (192, 0, 0 | 2)
        | (192, 31, 196)
        | (192, 52, 193)
        | (192, 88, 99)
        | (192, 168, _)
        | (192, 175, 48)
        // Benchmarking; TEST-NET-2 and -3.
        | (198, 18 | 19, _)
        | (198, 51, 100)
        | (203, 0, 113) => true,
        _ => false,
    };
    !special
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    let s = address.segments();
    // Only global unicast, 2000::/3, can be public; that leaves out ::1, ::, fc00::/7, fe80::/10, ff00::/8,
    // 100::/64, and every form that embeds an IPv4 address outside it (mapped, compatible, NAT64).
    if s[0] & 0xe000 != 0x2000 {
        return false;
    }
    let special = match (s[0], s[1]) {
        // IETF protocol assignments 2001::/23, which holds Teredo, benchmarking, ORCHID and AMT.
        (0x2001, second) if second < 0x0200 => true,
        // Documentation; 6to4; AS112; documentation 3fff::/20.
        (0x2001, 0x0db8) | (0x2002, _) => true,
        (0x2620, 0x004f) if s[2] == 0x8000 => true,
        (0x3fff, second) if second < 0x1000 => true,
        _ => false,
    };
    !special
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every block of both special-purpose registries, then what is special by other registries.
    const SPECIAL: &[(&str, &str)] = &[
        ("0.0.0.0/8", "this network, RFC 791"),
        ("10.0.0.0/8", "private use, RFC 1918"),
        ("100.64.0.0/10", "shared address space, RFC 6598"),
        ("127.0.0.0/8", "loopback, RFC 1122"),
        ("169.254.0.0/16", "link-local and the metadata services, RFC 3927"),
        ("172.16.0.0/12", "private use, RFC 1918"),
        ("192.0.0.0/24", "IETF protocol assignments, RFC 6890"),
        ("192.0.0.0/29", "IPv4 service continuity, RFC 7335"),
        ("192.0.0.8/32", "dummy address, RFC 7600"),
        ("192.0.0.9/32", "port control anycast, RFC 7723"),
        ("192.0.0.10/32", "TURN anycast, RFC 8155"),
        ("192.0.0.170/31", "NAT64 discovery, RFC 7050"),
        ("192.0.2.0/24", "TEST-NET-1, RFC 5737"),
        ("192.31.196.0/24", "AS112, RFC 7535"),
        ("192.52.193.0/24", "AMT, RFC 7450"),
        ("192.88.99.0/24", "6to4 relays, deprecated by RFC 7526"),
        ("192.168.0.0/16", "private use, RFC 1918"),
        ("192.175.48.0/24", "AS112, RFC 7534"),
        ("198.18.0.0/15", "benchmarking, RFC 2544"),
        ("198.51.100.0/24", "TEST-NET-2, RFC 5737"),
        ("203.0.113.0/24", "TEST-NET-3, RFC 5737"),
        ("240.0.0.0/4", "reserved, RFC 1112"),
        ("255.255.255.255/32", "limited broadcast, RFC 919"),
        ("::/128", "unspecified, RFC 4291"),
        ("::1/128", "loopback, RFC 4291"),
        ("::ffff:0:0/96", "IPv4-mapped, RFC 4291"),
        ("64:ff9b::/96", "NAT64, RFC 6052"),
        ("64:ff9b:1::/48", "local NAT64, RFC 8215"),
        ("100::/64", "discard-only, RFC 6666"),
        ("100:0:0:1::/64", "dummy prefix, RFC 9780"),
        ("2001::/23", "IETF protocol assignments, RFC 2928"),
        ("2001::/32", "Teredo, RFC 4380"),
        ("2001:1::1/128", "port control anycast, RFC 7723"),
        ("2001:1::2/128", "TURN anycast, RFC 8155"),
        ("2001:1::3/128", "service registration anycast, RFC 9665"),
        ("2001:2::/48", "benchmarking, RFC 5180"),
        ("2001:3::/32", "AMT, RFC 7450"),
        ("2001:4:112::/48", "AS112, RFC 7535"),
        ("2001:10::/28", "ORCHID, RFC 4843"),
        ("2001:20::/28", "ORCHIDv2, RFC 7343"),
        ("2001:30::/28", "drone remote identification, RFC 9374"),
        ("2001:db8::/32", "documentation, RFC 3849"),
        ("2002::/16", "6to4, RFC 3056"),
        ("2620:4f:8000::/48", "AS112, RFC 7534"),
        ("3fff::/20", "documentation, RFC 9637"),
        ("5f00::/16", "segment routing, RFC 9602"),
        ("fc00::/7", "unique local, RFC 4193"),
        ("fe80::/10", "link-local, RFC 4291"),
        ("224.0.0.0/4", "multicast, RFC 5771"),
        ("ff00::/8", "multicast, RFC 4291"),
        ("fec0::/10", "site-local, deprecated by RFC 3879"),
        ("::/96", "IPv4-compatible, deprecated by RFC 4291"),
    ];

    #[track_caller]
    fn check(label: &str, address: IpAddr, public: bool) {
        assert_eq!(judge_address(address, &AllowList::default()).is_ok(), public, "{label}: {address}");
    }

    #[test]
    fn sec_2_every_special_block_is_refused_from_its_first_address_to_its_last() {
        for (block, what) in SPECIAL {
            let block: IpNet = block.parse().expect(what);
            check(what, block.network(), false);
            check(what, block.broadcast(), false);
        }
    }

    #[test]
    fn sec_2_what_is_next_to_a_special_block_is_public() {
        for public in [
            "1.0.0.0",
            "9.255.255.255",
            "11.0.0.0",
            "100.63.255.255",
            "100.128.0.0",
            "126.255.255.255",
            "128.0.0.0",
            "169.253.255.255",
            "169.255.0.0",
            "172.15.255.255",
            "172.32.0.0",
            "191.255.255.255",
            "192.0.1.0",
            "192.0.1.255",
            "192.0.3.0",
            "192.31.195.255",
            "192.31.197.0",
            "192.52.192.255",
            "192.52.194.0",
            "192.88.98.255",
            "192.88.100.0",
            "192.167.255.255",
            "192.169.0.0",
            "192.175.47.255",
            "192.175.49.0",
            "198.17.255.255",
            "198.20.0.0",
            "198.51.99.255",
            "198.51.101.0",
            "203.0.112.255",
            "203.0.114.0",
            "223.255.255.255",
            "2000::",
            "2000:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
            "2001:200::",
            "2001:db7:ffff:ffff:ffff:ffff:ffff:ffff",
            "2001:db9::",
            "2001:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
            "2003::",
            "2620:4f:7fff:ffff:ffff:ffff:ffff:ffff",
            "2620:4f:8001::",
            "3ffe:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
            "3fff:1000::",
            "3fff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
        ] {
            check("public", public.parse().expect(public), true);
        }
    }

    #[test]
    fn sec_2_an_address_outside_global_unicast_is_never_public() {
        // IPv6 2000::/3 (RFC 4291 2.4): all else is special or not assigned, as are forms that embed a public IPv4.
        for outside in ["1fff:ffff::1", "4000::1", "8000::1", "::ffff:1.1.1.1", "::1.1.1.1", "64:ff9b::1.1.1.1"] {
            check("outside", outside.parse().expect(outside), false);
        }
    }

    #[test]
    fn sec_2_a_literal_in_any_spelling_is_judged_as_the_address_it_is() {
        for (spelling, address) in [
            ("127.1", "127.0.0.1"),
            ("2130706433", "127.0.0.1"),
            ("0x7f000001", "127.0.0.1"),
            ("0X7F.1", "127.0.0.1"),
            ("0177.0.0.1", "127.0.0.1"),
            ("127.0.0.1.", "127.0.0.1"),
            ("%31%32%37.0.0.1", "127.0.0.1"),
            ("\u{ff11}\u{ff12}\u{ff17}.0.0.1", "127.0.0.1"),
            ("127\u{3002}0\u{3002}0\u{3002}1", "127.0.0.1"),
            ("0", "0.0.0.0"),
            ("2852039166", "169.254.169.254"),
            ("[::ffff:7f00:1]", "::ffff:127.0.0.1"),
            ("[0:0:0:0:0:FFFF:127.0.0.1]", "::ffff:127.0.0.1"),
        ] {
            let refusal = judge_url(&format!("https://{spelling}/"), Scheme::Https, &AllowList::default());
            assert_eq!(refusal, Err(Refusal::Address(address.parse().expect(address))), "{spelling}");
        }
    }

    #[test]
    fn sec_1_the_form_of_a_url() {
        let judge = |url, scheme| judge_url(url, scheme, &AllowList::default()).map(|_| ());
        assert_eq!(judge("https://hooks.example.com/x", Scheme::Https), Ok(()));
        assert_eq!(judge("http://hooks.example.com/x", Scheme::Https), Err(Refusal::Scheme));
        assert_eq!(judge("http://hooks.example.com/x", Scheme::HttpToo), Ok(()));
        assert_eq!(judge("ftp://hooks.example.com/x", Scheme::HttpToo), Err(Refusal::Scheme));
        assert_eq!(judge("hooks.example.com/x", Scheme::Https), Err(Refusal::NotAUrl));
        assert_eq!(judge("https://u@hooks.example.com/", Scheme::Https), Err(Refusal::Credentials));
        assert_eq!(judge("https://u:p@hooks.example.com/", Scheme::Https), Err(Refusal::Credentials));
        assert_eq!(judge("", Scheme::Https), Err(Refusal::NotAUrl));
    }

    #[test]
    fn sec_2_an_allow_list_opens_its_ranges_alone() {
        let allowed = AllowList::parse(" 10.9.0.0/16, fd00::/8 ").expect("valid");
        assert!(judge_url("https://10.9.8.7/", Scheme::Https, &allowed).is_ok());
        assert!(judge_url("https://10.8.8.7/", Scheme::Https, &allowed).is_err());
        assert!(judge_url("https://[fd12::1]/", Scheme::Https, &allowed).is_ok());
        assert_eq!(AllowList::parse(""), Ok(AllowList::default()));
        assert_eq!(AllowList::parse("10.9/16"), Err(InvalidRange("10.9/16".to_owned())));
    }
}
