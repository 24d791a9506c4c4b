package main

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// dpkgScript installs, upgrades and removes a package in a copy of this system: what it writes is in a file system in
// memory above the files of this system, and is gone with the namespace of mounts.
const dpkgScript = `
mount -t tmpfs upper "$ROOT"
mkdir "$ROOT/upper" "$ROOT/work" "$ROOT/root"
mount -t overlay -o "lowerdir=/,upperdir=$ROOT/upper,workdir=$ROOT/work" overlay "$ROOT/root"
cd "$ROOT/root"
mkdir -p debs proc dev run
mount -t tmpfs none run
mount --bind "$DEBS" debs
mount --rbind /dev dev
mount --rbind /proc proc
exec chroot . /bin/sh -euxc '
fail() { echo "FAILED: $*"; exit 1; }
same() { [ "$1" = "$2" ] || fail "$3: $1"; }

dpkg --no-triggers --force-unsafe-io --install debs/1.deb
same "$(taskengine)" v1.2.3-rc.1 "the program says"
same "$(getent passwd taskengine | cut -d: -f6)" /var/lib/taskengine "the home of the user is"
grep -q "path: /var/lib/taskengine/data" /etc/taskengine/taskengine.yaml || fail "the configuration"
same "$(dpkg --verify taskengine)" "" "changed"
systemctl enable taskengine.service
[ -L /etc/systemd/system/multi-user.target.wants/taskengine.service ] || fail "the unit cannot be enabled"

echo "node: {name: mine}" > /etc/taskengine/taskengine.yaml
mkdir -p /var/lib/taskengine/data
dpkg --no-triggers --force-unsafe-io --install debs/2.deb
same "$(taskengine)" v1.2.3 "after the upgrade the program says"
same "$(cat /etc/taskengine/taskengine.yaml)" "node: {name: mine}" "the upgrade has changed the configuration"
[ -L /etc/systemd/system/multi-user.target.wants/taskengine.service ] || fail "the upgrade has disabled the unit"

dpkg --no-triggers --force-unsafe-io --remove taskengine
[ ! -e /usr/bin/taskengine ] || fail "the program is left"
[ ! -L /etc/systemd/system/multi-user.target.wants/taskengine.service ] || fail "the unit is still enabled"
[ -d /var/lib/taskengine/data ] || fail "the tasks are removed"
[ -e /etc/taskengine/taskengine.yaml ] || fail "the configuration is removed"

dpkg --no-triggers --force-unsafe-io --purge taskengine
[ ! -e /etc/taskengine ] || fail "the configuration is left"
[ -d /var/lib/taskengine/data ] || fail "the tasks are purged"
getent passwd taskengine || fail "the user is removed"
echo DONE'
`

func TestDpkgInstallsUpgradesAndRemovesADeb(t *testing.T) {
	if out, err := exec.Command("unshare", "--mount", "true").CombinedOutput(); err != nil || os.Getuid() != 0 {
		t.Skipf("no right to make a namespace of mounts: %v: %s", err, out)
	}
	debs, root := t.TempDir(), t.TempDir()
	for name, version := range map[string]string{"1.deb": "v1.2.3-rc.1", "2.deb": "v1.2.3"} { // dpkg calls a downgrade an upgrade, with a warning
		p := testPack(t, version)
		p.architecture = runtime.GOARCH
		write(t, filepath.Join(debs, name), string(made(t, func(w io.Writer) error { return p.writeDeb(w) })))
	}
	cmd := exec.Command("unshare", "--mount", "--propagation", "private", "/bin/sh", "-ec", dpkgScript)
	cmd.Env = append(os.Environ(), "ROOT="+root, "DEBS="+debs, "LC_ALL=C", "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.HasSuffix(string(out), "DONE\n") {
		t.Errorf("%v\n%s", err, out)
	}
}
