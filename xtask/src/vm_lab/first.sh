#!/bin/busybox sh
# The guest's first process: reaches the host's files and moves onto them, under an overlay that nobody keeps.
/bin/busybox --install -s /bin
PATH=/bin
mount -t proc -o nosuid,nodev,noexec proc /proc
mount -t sysfs -o nosuid,nodev,noexec sysfs /sys
mount -t devtmpfs -o nosuid,mode=755 devtmpfs /dev
for module in /modules/*; do
    insmod "$module" || echo "vm-lab: cannot load $module"
done

# The kernel and QEMU agree about the ports a moment after the module is loaded. The first number of a port is the
# device's, which depends on what else there is.
tries=0
port=/dev/vport0p3
while [ ! -c "$port" ] && [ "$tries" -lt 200 ]; do
    tries=$((tries + 1))
    usleep 50000
    for port in /dev/vport*p3; do :; done
done
[ -c "$port" ] || { echo "vm-lab: there is no port to report to"; poweroff -f; }
exec 3> "$port"
fail() {
    echo "vm-lab: cannot $*"
    echo "failed $*" >&3
    poweroff -f
}

. /vm-lab/settings
mount -t 9p -o trans=virtio,version=9p2000.L,ro,msize=524288,cache=loose host /host || fail "mount the host's files"
mount -t tmpfs -o mode=755 tmpfs /layer && mkdir /layer/upper /layer/work || fail "make a file system for changes"
mount -t overlay -o lowerdir=/host,upperdir=/layer/upper,workdir=/layer/work overlay /new || fail "mount the overlay"

# A link, not a mount: a mount below /usr is not what programs usually find.
mkdir -p /new/lib/modules && ln -s "$modules" "/new/lib/modules/$release" || fail "link the modules"
mount -t tmpfs -o nosuid,nodev,mode=755 tmpfs /new/run || fail "mount /run"
mount -t tmpfs -o nosuid,nodev,mode=1777 tmpfs /new/tmp || fail "mount /tmp"
cp -r /vm-lab /new/run/vm-lab && cp /bin/busybox /new/run/vm-lab/busybox || fail "copy files to /run"
for directory in proc sys dev; do
    mount --move "/$directory" "/new/$directory" || fail "move /$directory"
done
# As a real system does: then the kernel finds modprobe, and user namespaces can be made, which a chroot forbids.
exec switch_root /new /run/vm-lab/busybox sh /run/vm-lab/second.sh
