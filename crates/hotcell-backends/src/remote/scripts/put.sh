# Gives an uploaded file its place: UPLOADED PATH MODE. Says what is in the way, if something is.
if [ -e "$2" ]; then
  [ -f "$2" ] || { echo kind; exit 1; }
  [ -w "$2" ] || { echo denied; exit 1; }
  cat "$1" > "$2" || exit 1
else
  above=${2%/*}
  [ -d "${above:-/}" ] || { echo missing; exit 1; }
  [ -w "${above:-/}" ] || { echo denied; exit 1; }
  umask 077
  cat "$1" > "$2" && chmod "$3" "$2" || exit 1
fi
rm -f "$1"
