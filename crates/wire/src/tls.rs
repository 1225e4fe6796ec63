//! TLS certificates of a flow, derived from its secret.
//!
//! An end that knows a flow's secret derives the key of the flow's certificate authority from it,
//! and signs a certificate for itself. No key and no certificate is distributed or stored, and both
//! ends accept exactly the ends that know the secret. A certificate names an end and its flow,
//! `w2.1f.euphrates`, and the flow alone, `1f.euphrates`. A caller asks for the latter, which tells
//! the answerer the flow.
//!
//! Certificates exist only in the memory of a process, so expiry would add no protection, and could
//! reject valid ones if clocks differ. They are valid for two thousand years and verified as of a
//! fixed day.

mod stream;

use std::collections::VecDeque;
use std::fmt::Display;
use std::sync::Arc;
use std::time::Duration;

use euphrates_flow::sync::Mutex;
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
pub(crate) use stream::{Opening, REMEDY_SECURITY, Sealing, Tls, TlsAnswer, call, is_tls};
pub(crate) use stream::{refuse_tls, serve};

/// The domain of all names in certificates.
const DOMAIN: &str = "euphrates";
/// The PKCS #8 prefix of an Ed25519 key's 32 bytes (RFC 8410).
const PKCS8_ED25519: [u8; 16] = [
    0x30, 0x2e, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x04, 0x22, 0x04, 0x20,
];
/// The day on which all certificates are checked: the first of 2026.
const TODAY: Duration = Duration::from_secs(1_767_225_600);
/// Cached TLS configurations, at most. A process takes part in few flows at a time.
const CONFIGS_MAX: usize = 64;

/// The TLS configuration of an end in one flow: its certificate, and the authority it accepts.
#[derive(Debug)]
pub(crate) struct TlsConfigs {
    calling: Arc<ClientConfig>,
    called: Arc<ServerConfig>,
}

/// The cached configuration of this end in a flow, made on first use.
pub(crate) fn configs(name: &str, flow: u64, secret: &Secret) -> Result<Arc<TlsConfigs>> {
    type SessionKey = (String, u64, [u8; SECRET_BYTES]);
    static KNOWN: Mutex<VecDeque<(SessionKey, Arc<TlsConfigs>)>> = Mutex::new(VecDeque::new());
    let known = || KNOWN.lock();
    let key = (name.to_string(), flow, *secret.derive("known cards").bytes());
    if let Some((_, configs)) = known().iter().find(|(at, _)| *at == key) {
        return Ok(configs.clone());
    }
    let configs = Arc::new(TlsConfigs::make(name, flow, secret)?);
    let mut known = known();
    known.truncate(CONFIGS_MAX - 1);
    known.push_front((key, configs.clone()));
    Ok(configs)
}

impl TlsConfigs {
    fn make(name: &str, flow: u64, secret: &Secret) -> Result<TlsConfigs> {
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
        // A connection lasts as long as a flow, so no session is resumed.
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
        Ok(TlsConfigs { calling: Arc::new(calling), called: Arc::new(called) })
    }
}

/// The flow's certificate authority, whose key follows from the secret alone.
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

/// Cipher suites, AES-128 first: it is the fastest where processors have instructions for it.
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

/// The inverse of `name_of_flow`; `None` for any other name.
fn flow_of_name(name: &str) -> Option<u64> {
    let flow = u64::from_str_radix(name.strip_suffix(DOMAIN)?.strip_suffix('.')?, 16).ok()?;
    (name_of_flow(flow) == name).then_some(flow)
}

/// Fails unless the certificate names this end and flow.
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

/// A clock that always shows `TODAY`.
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
    fn authority_is_a_function_of_the_secret() {
        let secret = Secret::random().unwrap();
        let key = |secret: &Secret| authority(secret).unwrap().0.key().serialize_der();
        assert_eq!(key(&secret), key(&Secret::parse(&secret.to_text()).unwrap()));
        assert_ne!(key(&secret), key(&Secret::random().unwrap()));
    }

    #[test]
    fn flow_names_roundtrip() {
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
    fn certificate_is_valid_for_one_name_and_flow() {
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
    fn configs_are_cached_and_the_cache_is_bounded() {
        let secret = Secret::random().unwrap();
        let first = configs("w1", 1, &secret).unwrap();
        assert!(Arc::ptr_eq(&first, &configs("w1", 1, &secret).unwrap()));
        assert!(!Arc::ptr_eq(&first, &configs("w1", 1, &Secret::random().unwrap()).unwrap()));
        for flow in 2..2 + CONFIGS_MAX as u64 {
            configs("w1", flow, &secret).unwrap();
        }
        assert!(!Arc::ptr_eq(&first, &configs("w1", 1, &secret).unwrap()));
    }
}
