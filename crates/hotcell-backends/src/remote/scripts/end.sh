# Ends a command and everything that descends from it: PROCESS STARTED GRACE. Says `gone` or `left`.
leader=$1 started=$2 grace=$3
known=
# Who is to be ended: the group of the command, all that one of them started in whatever group, and who was among them before.
victims() {
  found=" "
  for process in $known; do
    { IFS= read -r line < "/proc/$process/stat"; } 2>/dev/null || continue
    set -- ${line##*) }
    [ "$1" = Z ] || found="$found$process "
  done
  if [ -r "/proc/$leader/stat" ]; then
    IFS= read -r line < "/proc/$leader/stat" || line=
    # Another process may have got its number since.
    set -- ${line##*) }
    [ "$#" -ge 20 ] && [ "${20}" != "$started" ] && return
  fi
  again=yes
  while [ "$again" = yes ]; do
    again=no
    for file in /proc/[0-9]*/stat; do
      process=${file#/proc/}
      process=${process%/stat}
      case $found in *" $process "*) continue ;; esac
      { IFS= read -r line < "$file"; } 2>/dev/null || continue
      set -- ${line##*) }
      [ "$#" -ge 20 ] && [ "$1" != Z ] || continue
      case $found in
        *" $2 "*) ;;
        *) [ "$3" = "$leader" ] || continue ;;
      esac
      found="$found$process "
      again=yes
    done
  done
  known=$found
}
victims
if [ "$grace" != 0 ]; then
  kill -TERM "-$leader" 2>/dev/null
  tries=0
  while [ "$tries" -lt 5 ]; do
    victims
    [ "$found" = " " ] && break
    sleep "$grace"
    tries=$((tries + 1))
  done
fi
tries=0
while :; do
  victims
  [ "$found" = " " ] && { echo gone; exit 0; }
  [ "$tries" -lt 40 ] || { echo left; exit 1; }
  for process in $found; do kill -KILL "$process" 2>/dev/null; done
  [ "$tries" -eq 0 ] || sleep 0.05
  tries=$((tries + 1))
done
