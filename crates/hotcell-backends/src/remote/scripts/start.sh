# Starts one command: NONCE DIRECTORY PATH [OPTION LIMIT]... -- COUNT [NAME=VALUE]... PROGRAM [ARGUMENT]...
# The first line of stdout is ours, everything after it the program's. Nothing that is passed is ever read as a script.
nonce=$1 directory=$2 search=$3
shift 3
say() { printf '\036hotcell %s %s\036\n' "$nonce" "$*"; }
cd -- "$directory" 2>/dev/null || { say directory; exit 125; }
while [ "$1" != -- ]; do
  # What is tighter already cannot be loosened, and need not be.
  ulimit "$1" "$2" 2>/dev/null || [ "$(ulimit "$1")" -le "$2" ] 2>/dev/null || { say limit "$1"; exit 125; }
  shift 2
done
shift
variables=$1
shift
program= number=0
for word in "$@"; do
  [ "$number" -eq "$variables" ] && { program=$word; break; }
  number=$((number + 1))
done
found=
case $program in
  */*) [ -e "$program" ] && found=$program ;;
  *)
    set -f
    IFS=:
    for place in $search; do
      [ -f "${place:-.}/$program" ] || continue
      found=${place:-.}/$program
      [ -x "$found" ] && break
    done
    unset IFS
    set +f
    ;;
esac
[ -n "$found" ] || { say missing; exit 127; }
[ -x "$found" ] && [ ! -d "$found" ] || { say locked; exit 126; }
IFS= read -r state < "/proc/$$/stat" || { say proc; exit 125; }
state=${state##*) }
count=0
for field in $state; do
  count=$((count + 1))
  case $count in 3) group=$field ;; 20) started=$field ;; esac
done
say ready "$$" "$started"
# A group of its own, so that signals for it reach it and nothing else.
if [ "$group" = "$$" ]; then exec env -i -- "$@"; else exec setsid env -i -- "$@"; fi
