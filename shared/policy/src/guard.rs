//! SEC-1 and SEC-2: which URLs and addresses may be called.
//!
//! Owns: the judgement of a URL's form and of an address. Must not: resolve names; an adapter asks for every
//! address where the connection is made. Source: IANA special-purpose address registries (RFC 6890 and updates).

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

    #[track_caller]
    fn check(address: &str, public: bool) {
        let parsed: IpAddr = address.parse().expect(address);
        assert_eq!(judge_address(parsed, &AllowList::default()).is_ok(), public, "{address}");
    }

    #[test]
    fn sec_2_addresses() {
        for blocked in [
            "0.0.0.0",
            "0.1.2.3",
            "10.0.0.1",
            "100.64.0.1",
            "100.127.255.255",
            "127.0.0.1",
            "169.254.169.254",
            "172.16.0.1",
            "172.31.255.255",
            "192.0.0.8",
            "192.0.2.1",
            "192.31.196.1",
            "192.52.193.1",
            "192.88.99.1",
            "192.168.0.1",
            "192.175.48.1",
            "198.18.0.1",
            "198.19.255.255",
            "198.51.100.1",
            "203.0.113.1",
            "224.0.0.1",
            "239.1.1.1",
            "240.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "::ffff:93.184.216.34",
            "::93.184.216.34",
            "64:ff9b::5db8:d822",
            "64:ff9b:1::1",
            "100::1",
            "2001::1",
            "2001:2::1",
            "2001:10::1",
            "2001:20::1",
            "2001:db8::1",
            "2002:5db8:d822::1",
            "2620:4f:8000::1",
            "3fff::1",
            "5f00::1",
            "fc00::1",
            "fd12::1",
            "fe80::1",
            "fec0::1",
            "ff02::1",
        ] {
            check(blocked, false);
        }
        for public in [
            "1.1.1.1",
            "9.255.255.255",
            "11.0.0.0",
            "93.184.216.34",
            "100.63.255.255",
            "100.128.0.0",
            "172.15.255.255",
            "172.32.0.1",
            "192.0.1.1",
            "192.167.1.1",
            "198.17.255.255",
            "198.20.0.0",
            "223.255.255.255",
            "2606:2800:220:1:248:1893:25c8:1946",
            "2001:200::1",
            "2620:4f:8001::1",
            "3ffe::1",
        ] {
            check(public, true);
        }
    }

    #[test]
    fn sec_2_a_literal_in_any_spelling_is_judged_as_the_address_it_is() {
        for spelling in ["127.1", "2130706433", "0x7f000001", "0177.0.0.1", "[::ffff:7f00:1]", "127.0.0.1."] {
            let url = format!("https://{spelling}/");
            let refusal = judge_url(&url, Scheme::Https, &AllowList::default());
            assert!(matches!(refusal, Err(Refusal::Address(_))), "{spelling}: {refusal:?}");
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
