# Makes a directory, with those above it: PATH. Says what is in the way, if something is.
[ -d "$1" ] && exit 0
[ -e "$1" ] || [ -L "$1" ] && { echo kind; exit 1; }
umask 022
mkdir -p "$1" || exit 1
