# What the build scripts of the languages share. Sourced with LANGUAGE set, in the folder of the
# language.
#
# A build script keeps these files in target/tools/<language>: `components` names what it makes, one a
# line, and `install-seconds` says how long installing tools took, if it did; ../build shows both.
# `current` is a fingerprint of what the components were made from.

GUESTS="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
TOOLS="$GUESTS/target/tools/$LANGUAGE"
BUILT="$GUESTS/target/components"
readonly GUESTS TOOLS BUILT
mkdir -p "$TOOLS" "$BUILT"

fail() {
    echo "guest-examples: $LANGUAGE: $*" >&2
    exit 1
}

# Whether the components are there and nothing they were made from has changed. The sources pin the versions
# of the tools that come from PyPI and npm. They do not pin what npm's packages depend on, nor what comes
# from Debian; a script whose compiler does defines `versions`, which prints what is there.
is_current() {
    [[ -e $TOOLS/current ]] && fingerprint 2>/dev/null | cmp --silent - "$TOOLS/current"
}

remember() {
    printf '%s\n' "${COMPONENTS[@]}" >"$TOOLS/components"
    fingerprint >"$TOOLS/current.new"
    mv "$TOOLS/current.new" "$TOOLS/current"
}

fingerprint() {
    local name
    # SHARED names what it uses from other folders.
    find . ../tools/common.sh ../../wit "${SHARED[@]}" -type f ! -name README.md ! -path './sample*/*' -print0 |
        LC_ALL=C sort -z | xargs -0 sha256sum
    if declare -F versions >/dev/null; then versions || return; fi
    for name in "${COMPONENTS[@]}"; do sha256sum <"$BUILT/$name.wasm" || return; done
}

# Runs the command that installs tools and notes how long it took.
install() {
    local started=$SECONDS
    "$@"
    echo "$((SECONDS - started))" >"$TOOLS/install-seconds"
}

# `pypi PACKAGE VERSION TOOL ARGUMENT…`: a package of PyPI in a virtual environment of the language's own, and
# how to see that its tool runs. It is installed again where it does not, and where the folder has moved: the
# scripts of an environment name the place that it was made in.
pypi() {
    local wanted="$1 $2 in $TOOLS"
    local tool=("$TOOLS/venv/bin/$3" "${@:4}")
    if [[ $(cat "$TOOLS/installed" 2>/dev/null) == "$wanted" ]] && "${tool[@]}" >/dev/null 2>&1; then return; fi
    install venv_with "$1" "$2"
    "${tool[@]}" >/dev/null || fail "$1 $2 is installed, but '${tool[*]}' does not run"
    echo "$wanted" >"$TOOLS/installed"
}

venv_with() {
    command -v python3 >/dev/null || fail "python3 is missing; install Python 3.10 or later, $1 comes from PyPI"
    # Debian has it in a package of its own.
    python3 -c 'import ensurepip' 2>/dev/null ||
        install_debian "Python's module venv is incomplete; on Debian" python3-venv
    rm -rf "$TOOLS/venv" "$TOOLS/installed"
    python3 -m venv "$TOOLS/venv"
    "$TOOLS/venv/bin/pip" install --quiet --disable-pip-version-check "$1==$2"
}

# `install_debian SENTENCE PACKAGE…`: the sentence says what is missing, up to "… on Debian".
install_debian() {
    if [[ $(id -u) != 0 ]] || ! command -v apt-get >/dev/null; then
        fail "$1 'apt-get install ${*:2}'"
    fi
    echo "installing Debian's ${*:2}" >&2
    export DEBIAN_FRONTEND=noninteractive
    apt-get update --quiet >&2
    apt-get install --quiet --yes --no-install-recommends "${@:2}" >&2
}

# Writes stdin to a file in one step, and leaves the file alone if it already holds just that.
replace() {
    local file="$1" new="$1.new.$$"
    cat >"$new"
    if cmp --silent "$new" "$file"; then rm "$new"; else mv "$new" "$file"; fi
}

# `check_wit WHAT REMEDY`: fails if ./wit.sha256, the sums of the WIT package that something here was written
# for, are no longer those of the package.
check_wit() {
    wit_sums | cmp --silent - wit.sha256 || fail "the files in wit have changed since $1; $2"
}

wit_sums() {
    (cd "$GUESTS/../wit" && sha256sum ./*.wit)
}

# The packages that ./package.json names, in their exact versions; npm chooses those that they depend on.
npm_install() {
    if cmp --silent package.json "$TOOLS/installed.json"; then return; fi
    command -v npm >/dev/null || fail "npm is missing; install Node.js 20 or later"
    rm -rf "$TOOLS/node_modules" "$TOOLS/installed.json"
    cp package.json "$TOOLS/package.json"
    (cd "$TOOLS" && npm install --no-package-lock --no-audit --no-fund --loglevel=error </dev/null)
    cp package.json "$TOOLS/installed.json"
}

# `componentize_js FILE NAME`: a component out of one JavaScript file and what it imports.
componentize_js() {
    rm -rf "$TOOLS/wit"
    mkdir "$TOOLS/wit"
    cp "$GUESTS"/../wit/*.wit "$GUESTS/javascript/script.wit" "$TOOLS/wit/"
    # Without --sync it would need a host with the asynchronous component model.
    "$TOOLS/node_modules/.bin/componentize-qjs" --sync --wit "$TOOLS/wit" --world script \
        --js "$1" --output "$TOOLS/$2.wasm"
    replace "$BUILT/$2.wasm" <"$TOOLS/$2.wasm"
}
