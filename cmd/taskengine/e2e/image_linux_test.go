//go:build !race

package e2e

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// imageConfig is the part of the configuration of an image that a runtime uses.
type imageConfig struct {
	User        string
	Env         []string
	Entrypoint  []string
	Cmd         []string
	WorkingDir  string
	StopSignal  string
	Healthcheck struct{ Test []string }
}

// imageRunner runs a program in $ROOT as a container runtime does. Only the volume and /tmp can be written.
const imageRunner = `#!/bin/sh
exec unshare --mount --propagation private sh -ec '
mount --bind "$ROOT" "$ROOT"
mount -o remount,bind,ro "$ROOT"
mount --rbind /dev "$ROOT/dev"
mount -t tmpfs tmp "$ROOT/tmp"
mount --bind "$VOLUME" "$ROOT$FOLDER"
exec unshare --pid --fork --kill-child --mount-proc --root="$ROOT" --wd="$FOLDER" -S "$OWNER" -G "$OWNER" "$@"' sh "$@"
`

// TestANodeRunsInItsImage unpacks the image that a release has, and runs it in namespaces. It has no shell, so the handler
// is the program.
func TestANodeRunsInItsImage(t *testing.T) {
	t.Parallel()
	if out, err := exec.Command("unshare", "--mount", "--pid", "--fork", "--mount-proc", "true").CombinedOutput(); err != nil || os.Getuid() != 0 {
		t.Skipf("no right to run a container: %v: %s", err, out)
	}
	root, c := unpackImage(t)
	config := filepath.Join(root, c.Cmd[len(c.Cmd)-1])
	settings := `
storage: {path: ` + c.WorkingDir + `/data}
handlers:
  itself: {exec: [` + c.Entrypoint[0] + `, version], env: {` + role + `: taskengine}}
types:
  say: {handler: itself}
`
	if err := os.WriteFile(config, []byte(settings), 0o644); err != nil {
		t.Fatal(err)
	}
	owner, _, _ := strings.Cut(c.User, ":")
	number, err := strconv.Atoi(owner)
	if err != nil || number == 0 {
		t.Fatalf("the user of the image is %q", c.User)
	}
	volume := t.TempDir()
	if err := os.Chown(volume, number, number); err != nil {
		t.Fatal(err)
	}
	script := write(t, "runtime", imageRunner)
	if err := os.Chmod(script, 0o700); err != nil {
		t.Fatal(err)
	}
	env := append([]string{"ROOT=" + root, "VOLUME=" + volume, "FOLDER=" + c.WorkingDir, "OWNER=" + owner}, c.Env...)
	n := launchBy(t, script, "127.0.0.1:0", env, append(c.Entrypoint, c.Cmd...)...)
	n.awaitReady(t)
	first, _ := strconv.Atoi(strings.Fields(childrenOf(t, n.cmd.Process.Pid)[0])[0])

	inside := func(args ...string) result {
		t.Helper()
		cmd := exec.Command("nsenter", append([]string{"--target", strconv.Itoa(first), "--mount", "--pid", "--root", "--wd", "-S", owner, "-G", owner}, args...)...)
		cmd.Env = append([]string{role + "=taskengine", "TASKENGINE_ADDRESS=" + n.api}, c.Env...)
		return ended(t, cmd)
	}
	r := inside(append(c.Entrypoint, "task", "add", "say", "--wait", "-o", "json")...)
	if r.code != 0 || !strings.Contains(r.stdout, `"state":"done"`) || !strings.Contains(r.stdout, "taskengine") {
		t.Errorf("the task: %+v", r)
	}
	// The test has changed the address by a flag; the health check reads it in the file.
	if err := os.WriteFile(config, []byte(settings+"admin: {listen: '"+n.admin+"'}\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if r := inside(c.Healthcheck.Test[1:]...); c.Healthcheck.Test[0] != "CMD" || r.code != 0 || r.stdout != "ok\n" {
		t.Errorf("the health check %q: %+v", c.Healthcheck.Test, r)
	}
	if kept, err := os.ReadDir(volume); err != nil || len(kept) == 0 {
		t.Errorf("nothing is in the volume: %v", err)
	}
	if c.StopSignal != "SIGTERM" {
		t.Errorf("the image is stopped by %s", c.StopSignal)
	}
	if err := syscall.Kill(first, syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if code := n.exit(t); code != 0 {
		t.Errorf("the node ended with %d:\n%s", code, n.log)
	}
	if r := inside("health"); r.code == 0 {
		t.Error("the container has not ended")
	}
}

// unpackImage packs this program into an image, unpacks the image as a runtime does, and returns its root folder.
func unpackImage(t *testing.T) (root string, c imageConfig) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	repository, err := filepath.Abs("../../..")
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	archive := filepath.Join(folder, "image.tar")
	pack := exec.Command("go", "run", "./release", "-image", archive, "-program", self, "-platform", "linux/"+runtime.GOARCH, repository)
	pack.Dir = filepath.Join(repository, "tools")
	run := func(cmd *exec.Cmd) {
		t.Helper()
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s", cmd.Args, err, out)
		}
	}
	run(pack)
	run(exec.Command("tar", "-xf", archive, "-C", folder))
	type blob struct{ Digest string }
	read := func(path string, to any) {
		t.Helper()
		text, err := os.ReadFile(filepath.Join(folder, path))
		if err == nil {
			err = json.Unmarshal(text, to)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	at := func(b blob) string { return "blobs/" + strings.Replace(b.Digest, ":", "/", 1) }
	var index struct{ Manifests []blob }
	var manifest struct {
		Config blob
		Layers []blob
	}
	var document struct{ Config imageConfig }
	read("index.json", &index)
	read(at(index.Manifests[0]), &manifest)
	read(at(manifest.Config), &document)
	root = filepath.Join(folder, "root")
	for _, dir := range []string{root, filepath.Join(root, "proc"), filepath.Join(root, "dev")} { // the runtime makes the latter
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, layer := range manifest.Layers {
		run(exec.Command("tar", "--numeric-owner", "-xpzf", filepath.Join(folder, at(layer)), "-C", root))
	}
	return root, document.Config
}
