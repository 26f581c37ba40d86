# Makes the realm of the engines, and clears it away when it has ended. Arguments: the realm's directory, and the
# name of its cgroups. It ends when its input does, which is when whoever started it ends, however that happens.
# What cannot be removed is said on standard output.
directory=$1
name=$2
inside=$3
export directory name

points=
while read -r _ point kind _; do
    case $kind:$point in
    cgroup:/sys/fs/cgroup/* | cgroup2:/sys/fs/cgroup*) points="$points $point" ;;
    esac
done < /proc/mounts
export points

for point in $points; do
    mkdir "$point/$name" || exit 99
    # A set of processors that is empty can hold no process.
    for file in cpuset.cpus cpuset.mems; do
        if [ -e "$point/$file" ]; then cat "$point/$file" > "$point/$name/$file"; fi
    done
    # With version 2 limits have to be offered from above.
    if [ -e "$point/cgroup.controllers" ]; then
        for controller in $(cat "$point/cgroup.controllers"); do
            echo "+$controller" > "$point/cgroup.subtree_control"
        done
    fi
done

# The root of the realm's cgroups is where its first process is when it is made.
(
    for point in $points; do
        echo 0 > "$point/$name/cgroup.procs" || exit 99
    done
    exec unshare --mount --pid --net --ipc --cgroup --fork --kill-child=KILL -- sh -c "$inside" realm
)
status=$?

for point in $points; do
    tries=0
    until find "$point/$name" -depth -type d -exec rmdir {} + 2> /dev/null; do
        # Processes that were killed leave their cgroup a moment later.
        if [ "$tries" -ge 50 ]; then
            echo "left $point/$name"
            break
        fi
        tries=$((tries + 1))
        sleep 0.1
    done
done
rm -rf --one-file-system "$directory" || echo "left $directory"
exit "$status"
