# Unpacks what was uploaded, at the same paths as on the host: ARCHIVE.
umask 0
tar -x -p -o -f "$1" -C / || exit 1
rm -f "$1"
