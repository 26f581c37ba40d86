# Puts the code that comes on standard input into a file of its own, and runs it: file.sh ENDING COMMAND...
place=$(mktemp -d "${TMPDIR:-/tmp}/code.XXXXXX") || exit 125
file=$place/main$1
shift
cat >"$file" || exit 125
"$@" "$file" </dev/null
status=$?
rm -rf "$place"
exit "$status"
