# Says `alive` if something that was started after the box still runs in it, besides this: STARTED.
LC_ALL=C
since=$1
# Looks at a process; whether it runs. Its name may hold anything, newlines too, and its first thread may be dead while others run.
# One that is there and cannot be read is not known to be gone.
look() {
  number=$1 all=
  { while IFS= read -r line || [ -n "$line" ]; do all="$all$line "; done < "/proc/$number/stat"; } 2>/dev/null
  set -- ${all##*) }
  if [ "$#" -lt 20 ]; then
    [ ! -e "/proc/$number/stat" ] || { echo alive; exit 0; }
    return 1
  fi
  state=$1 parent=$2 born=${20}
  [ "$state" = Z ] || return 0
  set -- "/proc/$number/task/"*
  [ "$#" -gt 1 ]
}
own=" "
process=$$
while [ "$process" -gt 1 ] && look "$process"; do
  own="$own$process "
  process=$parent
done
for file in /proc/[0-9]*/stat; do
  process=${file#/proc/}
  process=${process%/stat}
  case $own in *" $process "*) continue ;; esac
  look "$process" || continue
  [ "$born" -le "$since" ] || { echo alive; exit 0; }
done
echo quiet
