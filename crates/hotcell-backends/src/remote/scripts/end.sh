# Ends a command and everything that descends from it: PROCESS STARTED LOOKS PAUSE. With LOOKS it is first asked to end. Says `ended` if it did when it was asked to, and `gone` or `left`.
LC_ALL=C
leader=$1 started=$2 looks=$3 pause=$4
known=
# Looks at a process; whether it runs. Its name may hold anything, newlines too, and its first thread may be dead while others run.
# One that is there and cannot be read is not known to be gone.
look() {
  number=$1 all=
  { while IFS= read -r line || [ -n "$line" ]; do all="$all$line "; done < "/proc/$number/stat"; } 2>/dev/null
  set -- ${all##*) }
  if [ "$#" -lt 20 ]; then
    [ ! -e "/proc/$number/stat" ] || unclear=yes
    return 1
  fi
  state=$1 parent=$2 group=$3 born=${20}
  [ "$state" = Z ] || return 0
  set -- "/proc/$number/task/"*
  [ "$#" -gt 1 ]
}
# Who is to be ended: the group of the command, all that one of them started in whatever group, and who was among them before.
victims() {
  found=" " unclear=no ours=yes
  for process in $known; do
    ! look "$process" || found="$found$process "
  done
  born=$started
  look "$leader"
  # Another process may have got its number since.
  [ "$born" = "$started" ] || { ours=no; return; }
  again=yes
  while [ "$again" = yes ]; do
    again=no
    for file in /proc/[0-9]*/stat; do
      process=${file#/proc/}
      process=${process%/stat}
      case $found in *" $process "*) continue ;; esac
      look "$process" || continue
      case $found in
        *" $parent "*) ;;
        *) [ "$group" = "$leader" ] || continue ;;
      esac
      found="$found$process "
      again=yes
    done
  done
  known=$found
}
is_gone() { [ "$found" = " " ] && [ "$unclear" = no ]; }
victims
if [ "$looks" != 0 ] && [ "$ours" = yes ]; then
  kill -TERM "-$leader" 2>/dev/null
  tries=0
  while [ "$tries" -lt "$looks" ]; do
    victims
    is_gone && break
    sleep "$pause"
    tries=$((tries + 1))
  done
  look "$leader" || printf 'ended '
fi
tries=0
while :; do
  victims
  # Whatever was seen of it.
  [ "$ours" = no ] || { kill -KILL "-$leader"; kill -KILL "$leader"; } 2>/dev/null
  is_gone && { echo gone; exit 0; }
  [ "$tries" -lt 40 ] || { echo left; exit 1; }
  for process in $found; do kill -KILL "$process" 2>/dev/null; done
  [ "$tries" -eq 0 ] || sleep 0.05
  tries=$((tries + 1))
done
