//! The components on disk.

use wasmq_wal::disk::Survival;

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

const SYMBOLS: &[u8] = b"\0asm\x0d\0\x01\0";

fn symbols_path(digest: &Digest) -> String {
    format!("/data/symbols/sha256/{}.wasm", digest.hex())
}

#[test]
fn symbols_are_kept_under_the_digest_of_their_component_until_they_are_replaced_or_removed() {
    let (disk, registry) = new();
    let digest = digest_of(b"one");
    assert_eq!(registry.load_symbols(&digest).unwrap(), None);
    assert!(!registry.store_symbols(b"first", &digest).unwrap());
    assert!(registry.store_symbols(SYMBOLS, &digest).unwrap(), "others were there");
    let disk = disk.after_power_cut(Survival::Lost, 0);
    let registry = on(&disk);
    assert_eq!(registry.load_symbols(&digest).unwrap().as_deref(), Some(SYMBOLS));
    assert_eq!(registry.with_symbols().unwrap(), [digest]);
    assert!(registry.remove_symbols(&digest).unwrap());
    assert!(!registry.remove_symbols(&digest).unwrap());
    let disk = disk.after_power_cut(Survival::Lost, 0);
    assert_eq!(on(&disk).load_symbols(&digest).unwrap(), None);
}

#[test]
fn damaged_symbols_are_told_from_missing_ones_and_can_be_replaced_or_removed() {
    let (disk, registry) = new();
    let digest = digest_of(b"one");
    let other = digest_of(b"two");
    registry.store_symbols(SYMBOLS, &digest).unwrap();
    write(&disk, &symbols_path(&other), &read(&disk, &symbols_path(&digest)));
    write(&disk, &symbols_path(&digest), b"something else");
    for digest in [digest, other] {
        let error = registry.load_symbols(&digest).unwrap_err();
        assert!(matches!(error, RegistryError::SymbolsDamaged { .. }), "{error}");
    }
    registry.store_symbols(SYMBOLS, &digest).unwrap();
    assert_eq!(registry.load_symbols(&digest).unwrap().as_deref(), Some(SYMBOLS));
    assert!(registry.remove_symbols(&other).unwrap());
}

#[test]
fn power_cut_at_every_step_of_replacing_symbols_leaves_the_old_or_the_new_ones() {
    let digest = digest_of(b"one");
    for cut in 0.. {
        let (disk, registry) = new();
        registry.store_symbols(b"old", &digest).unwrap();
        disk.cut_power_at(disk.operations() + cut);
        let acknowledged = registry.store_symbols(b"new", &digest).is_ok();
        for survival in Survival::ALL {
            let after = on(&disk.after_power_cut(survival, cut));
            let found = after.load_symbols(&digest).unwrap().unwrap();
            assert!(found == b"new" || (!acknowledged && found == b"old"), "cut {cut}, {survival:?}: {found:?}");
            after.store_symbols(b"new", &digest).unwrap();
        }
        if acknowledged {
            assert!(cut > 3, "{cut}");
            break;
        }
    }
}
