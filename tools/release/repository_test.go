package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// newRepository makes a repository with one commit.
func newRepository(t *testing.T) (dir string) {
	t.Helper()
	t.Setenv("GIT_CONFIG_GLOBAL", os.DevNull)
	t.Setenv("GIT_CONFIG_SYSTEM", os.DevNull)
	dir = t.TempDir()
	write(t, filepath.Join(dir, "CHANGELOG.md"), "## [1.2.3]\n\n- this\n")
	inGit(t, dir, "init", "--quiet", "--initial-branch=main")
	commit(t, dir)
	return dir
}

func commit(t *testing.T, dir string) {
	t.Helper()
	inGit(t, dir, "add", ".")
	inGit(t, dir, "-c", "user.name=x", "-c", "user.email=x@example.com", "commit", "--quiet", "-m", "x")
}

func inGit(t *testing.T, dir string, args ...string) string {
	t.Helper()
	out, err := git(dir, args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestAReleaseIsOfTheCommitThatIsCheckedOut(t *testing.T) {
	dir := newRepository(t)
	write(t, filepath.Join(dir, "untracked"), "x")
	r, err := openRepository(dir, "v1.2.3")
	if err != nil {
		t.Fatal(err)
	}
	source, err := r.checkOut()
	if err != nil {
		t.Fatal(err)
	}
	defer removeTree(source)
	if _, err := os.Stat(filepath.Join(source, "untracked")); err == nil {
		t.Error("a file that is not committed is in the release")
	}
	if tag := inGit(t, source, "describe", "--tags", "--exact-match"); tag != "v1.2.3" || inGit(t, dir, "tag") != "" {
		t.Errorf("the clone has the tag %q, and the repository %q", tag, inGit(t, dir, "tag"))
	}
}

func TestAReleaseIsRefused(t *testing.T) {
	dir := newRepository(t)
	inGit(t, dir, "tag", "v1.2.3")
	if _, err := openRepository(dir, "v1.2.3"); err != nil {
		t.Errorf("of the commit with its tag: %v", err)
	}
	refused := func(why, version, says string) {
		t.Helper()
		if _, err := openRepository(dir, version); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", why, err)
		}
	}
	for _, version := range []string{"", "1.2.3", "v1.2", "v1.2.3+meta", "v01.2.3"} {
		refused("the version "+version, version, "is not a version")
	}
	write(t, filepath.Join(dir, "CHANGELOG.md"), "changed")
	refused("with a change", "v1.2.3", "CHANGELOG.md")
	commit(t, dir)
	refused("of another commit than its tag", "v1.2.3", "check out the tag")
}

func TestFoldersAreComparedFileByFile(t *testing.T) {
	a, b := t.TempDir(), t.TempDir()
	for _, dir := range []string{a, b} {
		write(t, filepath.Join(dir, "same"), "x")
	}
	if err := compareFolders(a, b); err != nil {
		t.Error(err)
	}
	write(t, filepath.Join(a, "other"), "x")
	write(t, filepath.Join(b, "other"), "y")
	if err := compareFolders(a, b); err == nil || !strings.Contains(err.Error(), "other was made twice") {
		t.Error(err)
	}
	write(t, filepath.Join(a, "alone"), "x")
	if err := compareFolders(a, b); err == nil || !strings.Contains(err.Error(), "alone") {
		t.Error(err)
	}
}

// The commands are those of docs/install.md.
func TestAUserVerifiesARelease(t *testing.T) {
	keys := t.TempDir()
	key := filepath.Join(keys, "key")
	if out, err := exec.Command("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", key).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	public, err := os.ReadFile(key + ".pub")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	write(t, filepath.Join(dir, "taskengine_1.2.3_linux_amd64.tar.gz"), "archive")
	write(t, filepath.Join(dir, "NOTES.md"), "notes")
	if err := writeSums(dir); err != nil {
		t.Fatal(err)
	}
	if err := sign(dir, key); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "signers"), "taskengine "+string(public))
	verify := func() error {
		cmd := exec.Command("sh", "-ec", `ssh-keygen -Y verify -f signers -I taskengine -n file -s SHA256SUMS.sig < SHA256SUMS
sha256sum --check --ignore-missing SHA256SUMS`)
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		if err == nil && !bytes.Contains(out, []byte("taskengine_1.2.3_linux_amd64.tar.gz: OK")) {
			t.Errorf("it says %s", out)
		}
		return err
	}
	if err := verify(); err != nil {
		t.Error(err)
	}
	write(t, filepath.Join(dir, "NOTES.md"), "other notes")
	if verify() == nil {
		t.Error("another file has the checksum")
	}
	if err := writeSums(dir); err != nil {
		t.Fatal(err)
	}
	if verify() == nil {
		t.Error("other checksums have the signature")
	}
}
