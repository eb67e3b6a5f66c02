#!/usr/bin/env bash
# Builds every Rust guest into target/components/<name>.wasm. Run by ../build.
#
#   rust.sh           builds what has changed
#   rust.sh --embed   also refreshes the components that `wasmq demo` carries, in ../host/assets
#
# With `rustup target add wasm32-wasip2` it needs nothing else. Where that target is not installed
# it uses Debian's rustc-web, rust-web-src and wasi-libc, and builds the standard library itself;
# run as root with apt-get at hand, it installs them.

set -euo pipefail

readonly TARGET=wasm32-wasip2
readonly EMBEDDED=(csv-report-v1 csv-report-v2)
readonly DEBIAN_PACKAGES=(rustc-web rust-web-src wasi-libc)
readonly DEBIAN_RUSTC=/usr/bin/rustc
readonly DEBIAN_LIBC=/usr/lib/wasm32-wasi
readonly DEBIAN_LIBRARY=/usr/lib/rustlib/src/rust/library

cd "$(dirname "${BASH_SOURCE[0]}")/.."
readonly LANGUAGE=rust
source tools/common.sh

main() {
    compile
    collect
    if [[ ${1-} == --embed ]]; then embed; fi
}

# --- compiling ---------------------------------------------------------------------------------

compile() {
    command -v cargo >/dev/null || fail "cargo is missing; install Rust with rustup"
    # Flags from outside would replace the ones below.
    unset RUSTFLAGS CARGO_ENCODED_RUSTFLAGS CARGO_BUILD_RUSTFLAGS
    cargo fetch --locked --quiet
    if has_target; then
        run_cargo "$(remap_flags)"
    else
        ensure_debian_packages
        write_linker
        local flags
        flags="$(remap_flags) '--remap-path-prefix=$DEBIAN_LIBRARY=library',"
        flags+=" '-Clink-self-contained=no', '-Lnative=$DEBIAN_LIBC',"
        # Unstable only in that it builds the standard library.
        RUSTC_BOOTSTRAP=1 RUSTC="$DEBIAN_RUSTC" run_cargo "$flags" \
            -Zbuild-std=std,panic_abort \
            --config "target.$TARGET.linker='$PWD/target/wasip2-ld'"
    fi
}

# Cargo with rustc flags (TOML, each with a comma behind it) and further arguments.
run_cargo() {
    local flags="$1"
    shift
    cargo build --release --locked --target "$TARGET" --target-dir target \
        --workspace --lib --bins --examples \
        --config "target.$TARGET.rustflags=[$flags]" "$@"
}

# Panic messages hold file names: keep this machine's folders out of them.
remap_flags() {
    local folder
    for folder in "${CARGO_HOME:-$HOME/.cargo}"/registry/src/*; do
        if [[ -d $folder ]]; then printf "'--remap-path-prefix=%s=crates', " "$folder"; fi
    done
}

has_target() {
    local folder
    folder="$(rustc --print target-libdir --target "$TARGET" 2>/dev/null)" && [[ -d $folder ]]
}

# --- the fallback for machines without the target ------------------------------------------------

ensure_debian_packages() {
    if debian_packages_are_there; then return; fi
    install install_debian "the Rust target $TARGET is missing; run 'rustup target add $TARGET', or on Debian" \
        "${DEBIAN_PACKAGES[@]}"
    debian_packages_are_there || fail "apt-get has installed ${DEBIAN_PACKAGES[*]}, but" \
        "$DEBIAN_RUSTC, $DEBIAN_LIBC and $DEBIAN_LIBRARY are not all there"
}

debian_packages_are_there() {
    [[ -x $DEBIAN_RUSTC && -e $DEBIAN_LIBC/libc.a && -d $DEBIAN_LIBRARY ]]
}

# Debian has no linker for components; the one that comes with rustup's native toolchain does, once
# it is told where the C library and its start-up object are.
write_linker() {
    local bin
    bin="$(rustc --print sysroot)/lib/rustlib/$(rustc --print host-tuple)/bin"
    [[ -x $bin/wasm-component-ld && -x $bin/gcc-ld/wasm-ld ]] ||
        fail "$bin has no wasm-component-ld and gcc-ld/wasm-ld; install Rust with rustup"
    replace target/wasip2-ld <<EOF
#!/bin/sh
# Written by ../tools/rust.sh. Libraries start as reactors, programs as commands.
if [ "\$1" = -flavor ]; then shift 2; fi # meant for lld itself
crt=crt1-command.o
for argument; do
    case "\$argument" in --no-entry | _initialize) crt=crt1-reactor.o ;; esac
done
exec '$bin/wasm-component-ld' --wasm-ld-path='$bin/gcc-ld/wasm-ld' "\$@" \\
    -L '$DEBIAN_LIBC' "$DEBIAN_LIBC/\$crt"
EOF
    chmod +x target/wasip2-ld
}

# --- collecting ----------------------------------------------------------------------------------

# Copies the components together under their own names.
collect() {
    local name file
    while read -r name file; do
        [[ -s $file ]] || fail "cargo has not made $file, the component of $name"
        replace "target/components/$name.wasm" <"$file"
        echo "$name"
    done < <(components) >"$TOOLS/components.new"
    mv "$TOOLS/components.new" "$TOOLS/components"
}

# Each component's name and the file that cargo makes of it.
components() {
    local out="target/$TARGET/release" source name
    for source in */Cargo.toml; do
        name="$(dirname "$source")"
        if grep -q cdylib "$source" && [[ $name != behaviours ]]; then
            echo "$name $out/${name//-/_}.wasm"
        fi
    done
    for source in commands/src/bin/*.rs; do
        name="$(basename "$source" .rs)"
        echo "$name $out/$name.wasm"
    done
    for source in behaviours/examples/*.rs; do
        name="$(basename "$source" .rs)"
        echo "$name $out/examples/${name//-/_}.wasm"
    done
}

embed() {
    local name
    mkdir -p ../host/assets
    for name in "${EMBEDDED[@]}"; do
        replace "../host/assets/$name.wasm" <"target/components/$name.wasm"
    done
    echo "refreshed host/assets: ${EMBEDDED[*]}"
}

main "$@"
