# What the build scripts of the languages share. Each one sets LANGUAGE, changes to its own folder
# and sources this file.

readonly TARGET_DIR="$(cd .. && pwd)/target"
readonly TOOLS="$TARGET_DIR/tools/$LANGUAGE"
readonly COMPONENTS="$TARGET_DIR/components"
readonly STAMP="$TARGET_DIR/stamps/$LANGUAGE"

fail() {
    echo "guest-examples/$LANGUAGE/build: $*" >&2
    exit 1
}

# --- what is up to date ----------------------------------------------------------------------------

# Whether the components are those that the sources make. The arguments name the components.
up_to_date() {
    [[ -e $STAMP ]] && (inputs && outputs "$@") 2>/dev/null | cmp --silent - "$STAMP"
}

# Remembers what has been built of what, and prints how big it is.
built() {
    local name
    mkdir -p "$(dirname "$STAMP")"
    (inputs && outputs "$@") | replace "$STAMP"
    for name; do printf '%-28s %9d\n' "$name" "$(wc -c <"$COMPONENTS/$name.wasm")"; done
}

# The build scripts hold the versions of the tools, so they are inputs like the sources.
inputs() {
    find . ../tools/guest.sh ../../wit -type f -not -name '*.md' -not -path '*/sample/*' -print0 |
        sort -z | xargs -0 sha256sum
}

outputs() { (cd "$COMPONENTS" && sha256sum "${@/%/.wasm}"); }

# Writes stdin to a file in one step, and leaves the file alone if it already holds just that.
replace() {
    local file="$1" new="$1.new.$$"
    cat >"$new"
    if cmp --silent "$new" "$file"; then rm "$new"; else mv "$new" "$file"; fi
}

# --- tools -----------------------------------------------------------------------------------------

# Installs a package of a version from PyPI into a virtual environment of the language's own.
install_from_pypi() {
    local package="$1" version="$2"
    if [[ $(cat "$TOOLS/$package.version" 2>/dev/null) == "$version" ]]; then return; fi
    command -v python3 >/dev/null || fail "python3 is missing; install it, $package comes from PyPI"
    echo "installing $package $version below guest-examples/target/tools/$LANGUAGE" >&2
    python3 -m venv "$TOOLS/venv" >&2 ||
        fail "python3 cannot make a virtual environment; on Debian install python3-venv"
    "$TOOLS/venv/bin/pip" install --quiet --disable-pip-version-check "$package==$version" >&2
    echo "$version" >"$TOOLS/$package.version"
}

# Installs Debian packages unless the check passes already.
install_from_debian() {
    local check="$1"
    shift
    if "$check"; then return; fi
    if [[ $(id -u) != 0 ]] || ! command -v apt-get >/dev/null; then
        fail "a tool is missing; on Debian run 'apt-get install $*' as root"
    fi
    echo "installing Debian's $*" >&2
    export DEBIAN_FRONTEND=noninteractive
    apt-get update --quiet >&2
    apt-get install --quiet --yes --no-install-recommends "$@" >&2
    "$check" || fail "apt-get has installed $*, but a tool is still missing"
}
