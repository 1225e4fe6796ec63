//! Who is who in TLS: certificates of a flow, made of its secret.
//!
//! Whoever knows a flow's secret can make its certificate authority, whose key is derived from it,
//! and with that a certificate for itself. So no key and no certificate is ever sent around or
//! written down, and both ends accept exactly those who know the secret. A certificate names an end
//! and its flow, `w2.1f.euphrates`, and the flow alone, `1f.euphrates`, which is what a caller asks
//! for: by that name the one who is called knows which flow it is about.
//!
//! Certificates live in the memory of a process and are forgotten with it, so dates would protect
//! from nothing, and clocks jump: they are valid for two thousand years, and looked at on a day
//! that never changes.

mod stream;

use std::collections::VecDeque;
use std::fmt::Display;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use euphrates_flow::{Error, Result};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, PKCS_ED25519,
};
use rustls::client::{ClientConfig, Resumption, verify_server_name};
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer, ServerName, UnixTime};
use rustls::server::{
    NoServerSessionStorage, ParsedCertificate, ServerConfig, WebPkiClientVerifier,
};
use rustls::time_provider::TimeProvider;
use rustls::version::TLS13;
use rustls::{RootCertStore, SupportedCipherSuite};

use crate::secret::{SECRET_BYTES, Secret};
pub(crate) use stream::{Opened, Opening, REMEDY_SECURITY, Sealing, Tls, call, is_tls};
pub(crate) use stream::{refuse_tls, serve};

/// The domain of all names.
const DOMAIN: &str = "euphrates";
/// What stands before an Ed25519 key's 32 bytes in PKCS #8 (RFC 8410).
const PKCS8_ED25519: [u8; 16] = [
    0x30, 0x2e, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x04, 0x22, 0x04, 0x20,
];
/// The day on which all certificates are looked at: the first of 2026.
const TODAY: Duration = Duration::from_secs(1_767_225_600);
/// The flows whose certificates are kept at hand: a process takes part in few at a time.
const CARDS_MAX: usize = 64;

/// What an end shows and accepts in one flow.
#[derive(Debug)]
pub(crate) struct Cards {
    calling: Arc<ClientConfig>,
    called: Arc<ServerConfig>,
}

/// Those of this end, made when they are first asked for.
pub(crate) fn cards(name: &str, flow: u64, secret: &Secret) -> Result<Arc<Cards>> {
    type Key = (String, u64, [u8; SECRET_BYTES]);
    static KNOWN: Mutex<VecDeque<(Key, Arc<Cards>)>> = Mutex::new(VecDeque::new());
    let known = || KNOWN.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let key = (name.to_string(), flow, *secret.derive("known cards").bytes());
    if let Some((_, cards)) = known().iter().find(|(at, _)| *at == key) {
        return Ok(cards.clone());
    }
    let cards = Arc::new(Cards::make(name, flow, secret)?);
    let mut known = known();
    known.truncate(CARDS_MAX - 1);
    known.push_front((key, cards.clone()));
    Ok(cards)
}

impl Cards {
    fn make(name: &str, flow: u64, secret: &Secret) -> Result<Cards> {
        let (authority, root) = authority(secret)?;
        let key = KeyPair::generate_for(&PKCS_ED25519).map_err(failed)?;
        let mut leaf = CertificateParams::new([name_of_end(name, flow), name_of_flow(flow)])
            .map_err(failed)?;
        leaf.distinguished_name.push(DnType::CommonName, name);
        leaf.use_authority_key_identifier_extension = true;
        leaf.extended_key_usages =
            vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        let leaf = leaf.signed_by(&key, &authority).map_err(failed)?;
        let chain = vec![leaf.der().clone()];
        let key = PrivatePkcs8KeyDer::from(key.serialize_der());

        let mut roots = RootCertStore::empty();
        roots.add(root).map_err(failed)?;
        let (roots, provider) = (Arc::new(roots), Arc::new(provider()));
        let mut calling = ClientConfig::builder_with_details(provider.clone(), Arc::new(NoClock))
            .with_protocol_versions(&[&TLS13])
            .map_err(failed)?
            .with_root_certificates(roots.clone())
            .with_client_auth_cert(chain.clone(), key.clone_key().into())
            .map_err(failed)?;
        // A connection lasts as long as a flow; there is nothing to take up again.
        calling.resumption = Resumption::disabled();
        let asking = WebPkiClientVerifier::builder_with_provider(roots, provider.clone());
        let mut called = ServerConfig::builder_with_details(provider, Arc::new(NoClock))
            .with_protocol_versions(&[&TLS13])
            .map_err(failed)?
            .with_client_cert_verifier(asking.build().map_err(failed)?)
            .with_single_cert(chain, key.into())
            .map_err(failed)?;
        called.session_storage = Arc::new(NoServerSessionStorage {});
        called.send_tls13_tickets = 0;
        Ok(Cards { calling: Arc::new(calling), called: Arc::new(called) })
    }
}

/// The flow's authority: the same key wherever the secret is known.
fn authority(secret: &Secret) -> Result<(Issuer<'static, KeyPair>, CertificateDer<'static>)> {
    let key = [&PKCS8_ED25519[..], secret.derive("ca").bytes()].concat();
    let key = KeyPair::from_pkcs8_der_and_sign_algo(&key.into(), &PKCS_ED25519).map_err(failed)?;
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, DOMAIN);
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    let root = params.self_signed(&key).map_err(failed)?.der().clone();
    Ok((Issuer::new(params, key), root))
}

/// AES-128 first: as safe as anybody needs, and the fastest where processors have it.
fn provider() -> CryptoProvider {
    use ring::cipher_suite::*;
    use ring::kx_group::X25519;
    let cipher_suites: Vec<SupportedCipherSuite> =
        vec![TLS13_AES_128_GCM_SHA256, TLS13_AES_256_GCM_SHA384, TLS13_CHACHA20_POLY1305_SHA256];
    CryptoProvider { cipher_suites, kx_groups: vec![X25519], ..ring::default_provider() }
}

fn name_of_flow(flow: u64) -> String {
    format!("{flow:x}.{DOMAIN}")
}

fn name_of_end(name: &str, flow: u64) -> String {
    format!("{name}.{}", name_of_flow(flow))
}

/// The flow that such a name means.
fn flow_of_name(name: &str) -> Option<u64> {
    let flow = u64::from_str_radix(name.strip_suffix(DOMAIN)?.strip_suffix('.')?, 16).ok()?;
    (name_of_flow(flow) == name).then_some(flow)
}

/// Fails unless this certificate is that of the end with this name.
fn check_name(certificate: &CertificateDer<'_>, name: &str, flow: u64) -> Result<()> {
    let expected = name_of_end(name, flow);
    let asked = ServerName::try_from(expected.as_str()).map_err(failed)?;
    ParsedCertificate::try_from(certificate)
        .and_then(|certificate| verify_server_name(&certificate, &asked))
        .map_err(|_| Error::usage(format!("the other end's certificate is not that of {expected}")))
}

fn failed(error: impl Display) -> Error {
    Error::failed(format!("TLS cannot be set up: {error}"))
}

/// A clock that stands still.
#[derive(Debug)]
struct NoClock;

impl TimeProvider for NoClock {
    fn current_time(&self) -> Option<UnixTime> {
        Some(UnixTime::since_unix_epoch(TODAY))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_authority_follows_from_the_secret() {
        let secret = Secret::random().unwrap();
        let key = |secret: &Secret| authority(secret).unwrap().0.key().serialize_der();
        assert_eq!(key(&secret), key(&Secret::parse(&secret.to_text()).unwrap()));
        assert_ne!(key(&secret), key(&Secret::random().unwrap()));
    }

    #[test]
    fn names_of_flows_are_read_as_they_are_written() {
        for flow in [0, 7, 0x1f, u64::MAX] {
            assert_eq!(flow_of_name(&name_of_flow(flow)), Some(flow));
        }
        for name in
            ["euphrates", ".euphrates", "07.euphrates", "x.euphrates", "7.tigris", "+7.euphrates"]
        {
            assert_eq!(flow_of_name(name), None, "{name}");
        }
    }

    #[test]
    fn a_certificate_is_good_for_one_name() {
        let secret = Secret::random().unwrap();
        let (authority, _) = authority(&secret).unwrap();
        let key = KeyPair::generate_for(&PKCS_ED25519).unwrap();
        let params = CertificateParams::new([name_of_end("w_2.a-b", 7), name_of_flow(7)]).unwrap();
        let leaf = params.signed_by(&key, &authority).unwrap();
        check_name(leaf.der(), "w_2.a-b", 7).unwrap();
        for (name, flow) in [("w_2.a-b", 8), ("w1", 7), ("a-b", 7)] {
            let error = check_name(leaf.der(), name, flow).unwrap_err().to_string();
            assert!(error.contains(&name_of_end(name, flow)), "{error}");
        }
    }

    #[test]
    fn cards_are_made_once_and_few_are_kept() {
        let secret = Secret::random().unwrap();
        let first = cards("w1", 1, &secret).unwrap();
        assert!(Arc::ptr_eq(&first, &cards("w1", 1, &secret).unwrap()));
        assert!(!Arc::ptr_eq(&first, &cards("w1", 1, &Secret::random().unwrap()).unwrap()));
        for flow in 2..2 + CARDS_MAX as u64 {
            cards("w1", flow, &secret).unwrap();
        }
        assert!(!Arc::ptr_eq(&first, &cards("w1", 1, &secret).unwrap()));
    }
}
