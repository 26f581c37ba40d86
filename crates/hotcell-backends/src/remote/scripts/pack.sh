# Packs trees, by their paths below the root: ARCHIVE PATH... Says how long the archive is.
archive=$1
shift
umask 077
rm -f "$archive"
tar -c -f "$archive" -C / "$@" || exit 1
wc -c < "$archive"
