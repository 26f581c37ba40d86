# Removes a file, a link or a directory with all that is in it: PATH. Says if there is nothing.
[ -e "$1" ] || [ -L "$1" ] || { echo missing; exit 1; }
rm -rf "$1" || exit 1
