# Runs as pid 1 of the realm. Says `ready PID`, with the number that the host knows it by, and waits for the end of
# its input; a shell, because it waits for every process that has lost its parent.
read -r pid _ < /proc/self/stat
mount -n -t proc proc /proc || exit 99

# What engines write is in memory: it is quick, and it goes away with them.
mkdir "$directory/memory" && mount -n -t tmpfs -o mode=755 tmpfs "$directory/memory" || exit 99
# So is what they write outside of the directories that they are given.
number=0
for place in /run /var/lib /var/cache /etc/cni; do
    [ -d "$place" ] || continue
    number=$((number + 1))
    upper=$directory/memory/over-$number
    mkdir "$upper" "$upper-work" || exit 99
    mount -n -t overlay -o "lowerdir=$place,upperdir=$upper,workdir=$upper-work" overlay "$place" || exit 99
done

mkdir "$directory/stash" || exit 99
for point in $points; do
    mount -n --bind "$point/$name" "$directory/stash" && umount -n "$point" && mount -n --move "$directory/stash" "$point" \
        || exit 99
    for group in daemons tests; do
        mkdir "$point/$group" || exit 99
        for file in cpuset.cpus cpuset.mems; do
            if [ -e "$point/$file" ]; then cat "$point/$file" > "$point/$group/$file"; fi
        done
    done
    echo 0 > "$point/daemons/cgroup.procs" || exit 99
    # With version 2 a cgroup that offers limits to others can hold no process itself.
    if [ -e "$point/cgroup.controllers" ]; then
        for controller in $(cat "$point/cgroup.controllers"); do
            echo "+$controller" > "$point/cgroup.subtree_control"
        done
    fi
done
rmdir "$directory/stash"
ip link set lo up || exit 99
echo "ready $pid"
cat > /dev/null
