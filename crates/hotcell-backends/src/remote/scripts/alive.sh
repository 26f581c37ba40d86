# Says `alive` if something that was started after the box still runs in it, besides this: STARTED.
since=$1
own=" "
process=$$
while [ "$process" -gt 1 ] && IFS= read -r line < "/proc/$process/stat"; do
  own="$own$process "
  set -- ${line##*) }
  process=$2
done
for file in /proc/[0-9]*/stat; do
  process=${file#/proc/}
  process=${process%/stat}
  case $own in *" $process "*) continue ;; esac
  { IFS= read -r line < "$file"; } 2>/dev/null || continue
  set -- ${line##*) }
  [ "$#" -ge 20 ] && [ "$1" != Z ] && [ "${20}" -gt "$since" ] && { echo alive; exit 0; }
done
echo quiet
