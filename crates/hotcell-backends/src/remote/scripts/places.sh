# Makes places for trees, with all above them, and gives those that are new to the box's user: UID PATH...
user=$1
shift
for place in "$@"; do
  [ -e "$place" ] && continue
  mkdir -p "$place" && chown "$user" "$place" || exit 1
done
