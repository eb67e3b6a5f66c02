// Text from bytes and bytes from text. The engine, QuickJS, has neither TextDecoder nor TextEncoder.

// The text, or null when the bytes are not UTF-8.
export function decode(bytes) {
  const parts = [];
  for (let at = 0; at < bytes.length; at += 4096) {
    parts.push(Array.from(bytes.slice(at, at + 4096), (byte) => HEX[byte]).join(""));
  }
  try {
    return decodeURIComponent(parts.join(""));
  } catch {
    return null;
  }
}

export function encode(text) {
  const bytes = [];
  for (const character of text.toWellFormed()) {
    const code = character.codePointAt(0);
    if (code < 0x80) bytes.push(code);
    else if (code < 0x800) bytes.push(0xc0 | (code >> 6), 0x80 | (code & 63));
    else if (code < 0x10000) bytes.push(0xe0 | (code >> 12), 0x80 | ((code >> 6) & 63), 0x80 | (code & 63));
    else bytes.push(0xf0 | (code >> 18), 0x80 | ((code >> 12) & 63), 0x80 | ((code >> 6) & 63), 0x80 | (code & 63));
  }
  return new Uint8Array(bytes);
}

const HEX = Array.from({ length: 256 }, (_, byte) => "%" + byte.toString(16).padStart(2, "0"));
