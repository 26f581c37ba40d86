# Puts the code that comes on standard input into a file of its own, and runs it: file.sh ENDING LINES COUNT ARGUMENT... COMMAND...
# With LINES, so many lines are the code, and the rest is its input. A shell reads them byte by byte, so that it stops there.
place=$(mktemp -d "${TMPDIR:-/tmp}/code.XXXXXX") || exit 125
file=$place/main$1 lines=$2 count=$3
shift 3
set -- "$@" "$file"
while [ "$count" -gt 0 ]; do
    set -- "$@" "$1"
    shift
    count=$((count - 1))
done
if [ -z "$lines" ]; then
    cat >"$file" || exit 125
    exec </dev/null
else
    while [ "$lines" -gt 0 ]; do
        IFS= read -r line || exit 125
        printf '%s\n' "$line" || exit 125
        lines=$((lines - 1))
    done >"$file"
fi
"$@"
status=$?
rm -rf "$place"
exit "$status"
