//! The components on disk.

use super::*;

#[test]
fn a_stored_component_is_loaded_by_its_digest_and_stored_once() {
    let (disk, registry) = new();
    let digest = digest_of(b"bytes");
    assert!(registry.store_component(b"bytes", &digest).unwrap());
    assert!(!registry.store_component(b"bytes", &digest).unwrap());
    assert_eq!(on(&disk).load_component(&digest).unwrap(), b"bytes");
    assert_eq!(
        registry.component_path(&digest),
        Path::new("/data/components/sha256").join(format!("{}.wasm", digest.hex()))
    );
}

#[test]
fn bytes_with_another_digest_are_refused_before_anything_is_written() {
    let (disk, registry) = new();
    let error = registry.store_component(b"bytes", &digest_of(b"other")).unwrap_err();
    assert!(matches!(error, RegistryError::DigestMismatch { .. }));
    assert!(disk.stat(&registry.component_path(&digest_of(b"other"))).unwrap().is_none());
}

#[test]
fn a_damaged_component_is_told_from_a_missing_one_and_repaired_by_storing_it_again() {
    for damaged in [&b"bytEs"[..], b"byte", b"", b"bytes and more"] {
        let (disk, registry) = new();
        let digest = digest_of(b"bytes");
        assert!(matches!(registry.load_component(&digest), Err(RegistryError::ComponentMissing { .. })));
        registry.store_component(b"bytes", &digest).unwrap();
        write(&disk, registry.component_path(&digest).to_str().unwrap(), damaged);
        assert!(matches!(registry.load_component(&digest), Err(RegistryError::ComponentDamaged { .. })));
        assert!(registry.store_component(b"bytes", &digest).unwrap());
        assert_eq!(registry.load_component(&digest).unwrap(), b"bytes");
    }
}
