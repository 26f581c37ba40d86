# Whether a path leads to a regular file: PATH. Says what is wrong, if something is.
[ -f "$1" ] && exit 0
[ -e "$1" ] && { echo kind; exit 1; }
echo missing
exit 1
