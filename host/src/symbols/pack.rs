//! What is kept of a file of symbols: a component that holds a core module for each one of the described
//! component, in the same order and with custom sections only. So any wasm tool can look into it.
//!
//! The first custom section of each is `wasmq.code`: where the code begins in the described component, how
//! many functions are imported, how many follow, and the size of each, as LEB128. The others are those of the
//! unstripped build, byte for byte.
//!
//! Deliberately absent: a checksum; whoever keeps the bytes adds one.

use wasmparser::{BinaryReader, BinaryReaderError, Encoding, Payload};

use super::modules::{self, Described, Module, Unreadable};

const COMPONENT: &[u8] = b"\0asm\x0d\0\x01\0";
const CORE_MODULE: &[u8] = b"\0asm\x01\0\0\0";
const CODE: &str = "wasmq.code";
const CUSTOM_SECTION: u8 = 0;
const CORE_MODULE_SECTION: u8 = 1;

/// The modules as bytes; nothing when they are over the limit.
pub(super) fn write(modules: &[Module<'_>], limit_bytes: u64) -> Option<Vec<u8>> {
    let mut bytes = COMPONENT.to_vec();
    for module in modules {
        let described = module.sections.iter().map(|(_, content)| content.len() as u64).sum::<u64>();
        if bytes.len() as u64 + described > limit_bytes {
            return None;
        }
        let mut core = CORE_MODULE.to_vec();
        custom(&mut core, CODE, &code(module));
        for (name, content) in &module.sections {
            custom(&mut core, name, content);
        }
        section(&mut bytes, CORE_MODULE_SECTION, &[&core]);
    }
    (bytes.len() as u64 <= limit_bytes).then_some(bytes)
}

fn code(module: &Module<'_>) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(module.ends.len() * 2 + 16);
    leb(&mut bytes, module.code_start);
    leb(&mut bytes, module.imported.into());
    leb(&mut bytes, module.ends.len() as u64);
    let mut before = 0;
    for end in &module.ends {
        leb(&mut bytes, end.saturating_sub(before).into());
        before = *end;
    }
    bytes
}

/// A custom section with its name.
fn custom(bytes: &mut Vec<u8>, name: &str, content: &[u8]) {
    let mut length = Vec::new();
    leb(&mut length, name.len() as u64);
    section(bytes, CUSTOM_SECTION, &[&length, name.as_bytes(), content]);
}

pub(super) fn section(bytes: &mut Vec<u8>, id: u8, parts: &[&[u8]]) {
    bytes.push(id);
    leb(bytes, parts.iter().map(|part| part.len() as u64).sum());
    parts.iter().for_each(|part| bytes.extend_from_slice(part));
}

fn leb(bytes: &mut Vec<u8>, mut value: u64) {
    loop {
        let [low, ..] = (value & 0x7f).to_le_bytes();
        value >>= 7;
        if value == 0 {
            return bytes.push(low);
        }
        bytes.push(low | 0x80);
    }
}

/// What the bytes have for their component.
pub(crate) fn described(bytes: &[u8]) -> Described {
    Described::of(&read(bytes).unwrap_or_default())
}

/// The modules that were written.
///
/// # Errors
/// The bytes are not what [`write`] makes.
pub(super) fn read(bytes: &[u8]) -> Result<Vec<Module<'_>>, Unreadable> {
    let mut modules = Vec::new();
    let mut current = None;
    for payload in modules::parts(bytes) {
        match payload? {
            Payload::Version { encoding: Encoding::Module, .. } => current = Some(Module::default()),
            Payload::End(_) => modules.extend(current.take()),
            Payload::CustomSection(section) => match &mut current {
                Some(module) if section.name() == CODE => read_code(module, section.data())?,
                Some(module) => module.add_section(section.name(), section.data()),
                None => {}
            },
            _ => {}
        }
    }
    Ok(modules)
}

fn read_code(module: &mut Module<'_>, bytes: &[u8]) -> Result<(), BinaryReaderError> {
    let mut reader = BinaryReader::new(bytes, 0);
    module.code_start = reader.read_var_u64()?;
    module.imported = reader.read_var_u32()?;
    let (count, mut end) = (reader.read_var_u32()?, 0_u32);
    for _ in 0..count {
        end = end.saturating_add(reader.read_var_u32()?);
        module.ends.push(end);
    }
    Ok(())
}
